"""How well nested problems are solved, and what else one would do.

Run: python benchmarks/nested.py [--seeds K] [--budgets B ...] [--problem NAME]

Problems with known solution: `sklearn_scb2o.problems` (Mitsos-Barton, Mirrlees, circle, SMD1, SMD6), and the penalty of
a ridge regression and of a lasso, chosen on validation data. Solvers, each with the same number of evaluations of L:
- nested: `minimize_nested` with its defaults;
- cold: the same outer particles, but all inner runs start from the box, and are run to the end, in each iteration;
- DE + 1, DE + 4: SciPy's differential evolution over phi; for each phi L-BFGS-B on L from one or four random starts
  (and from the last solution), then SLSQP on G subject to L <= L_min + 1e-6. All finite differences count.

Prints over independent seeds how often the result is a solution (distance below 0.05, G within 0.01, and L within 1e-3
of its minimum for that phi), the medians of the three errors, evaluations of L and of G, and seconds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import differential_evolution, minimize, minimize_scalar
from sklearn.linear_model import Lasso

from sklearn_scb2o import NestedOptimizer, SCB2OOptimizer, minimize_nested
from sklearn_scb2o.particles import sigma_from_rate
from sklearn_scb2o.problems import NestedProblem, mirrlees, mitsos_barton, nested_circle, smd1, smd6


class SpentError(Exception):
    """The budget is spent."""


@dataclass
class Counted:
    """The objectives of a problem, counted, and the best pair that a solver has claimed."""

    problem: NestedProblem
    budget: int
    nfev: list[int] = field(default_factory=lambda: [0, 0])
    best: tuple[np.ndarray, np.ndarray, float] | None = None

    def lower(self, phi: np.ndarray, theta: np.ndarray) -> np.ndarray:
        values = self.problem.lower(phi, theta)
        self.nfev[0] += np.size(values)
        if self.nfev[0] > self.budget:
            raise SpentError
        return values

    def upper(self, phi: np.ndarray, theta: np.ndarray) -> np.ndarray:
        values = self.problem.upper(phi, theta)
        self.nfev[1] += np.size(values)
        return values

    def claim(self, phi: np.ndarray, theta: np.ndarray, upper: float) -> None:
        if self.best is None or upper < self.best[2]:
            self.best = np.array(phi), np.array(theta), float(upper)


def nested(counted: Counted, seed: int) -> tuple[np.ndarray, np.ndarray]:
    problem = counted.problem
    result = minimize_nested(
        counted.lower, counted.upper, problem.outer_bounds, problem.inner_bounds,
        vectorized=True, max_evals=counted.budget, tol=0.0, random_state=seed,
    )  # fmt: skip
    return result.x_outer, result.x_inner


def cold(counted: Counted, seed: int) -> tuple[np.ndarray, np.ndarray]:
    problem = counted.problem
    like = NestedOptimizer(problem.outer_bounds, problem.inner_bounds)
    p, d = len(problem.outer_bounds), len(problem.inner_bounds)
    outer = SCB2OOptimizer(
        problem.outer_bounds, n_particles=like.n_outer, selection="none", beta=0.3,
        sigma=sigma_from_rate(0.12, p, 1.0, 0.8), random_state=seed,
    )  # fmt: skip
    try:
        while True:
            phi = outer.ask()
            inner = SCB2OOptimizer(
                problem.inner_bounds, n_particles=like.n_inner, n_runs=like.n_outer, random_state=[*range(like.n_outer)],
                sigma=sigma_from_rate(0.2, d, 1.0, 0.8),
            )  # fmt: skip
            for _ in range(like.first_iter):
                theta = inner.ask()
                L = counted.lower(phi[:, None], theta)
                inner.tell(L, np.where(inner.needs_upper(L), counted.upper(phi[:, None], theta), np.nan))
            theta = inner.consensus
            upper = counted.upper(phi, theta)
            outer.tell(None, upper)
            best = int(np.argmin(upper))
            counted.best = phi[best].copy(), theta[best].copy(), float(upper[best])
    except SpentError:
        pass
    assert counted.best is not None
    return counted.best[:2]


def evolution(n_starts: int) -> object:
    def solve(counted: Counted, seed: int) -> tuple[np.ndarray, np.ndarray]:
        problem, rng = counted.problem, np.random.default_rng(seed)
        low, high = problem.inner_bounds.T

        def response(phi: np.ndarray) -> float:
            starts = [*rng.uniform(low, high, size=(n_starts, low.size))]
            if counted.best is not None:
                starts.append(counted.best[1])
            found = [
                minimize(lambda t: float(counted.lower(phi, t)), t, method="L-BFGS-B", bounds=problem.inner_bounds)
                for t in starts
            ]
            least = min(r.fun for r in found)
            upper = np.inf
            for r in found:
                if r.fun > least + 1e-6:
                    continue
                limit = {"type": "ineq", "fun": lambda t: 1e6 * (least + 1e-6 - float(counted.lower(phi, t)))}
                picked = minimize(
                    lambda t: float(counted.upper(phi, t)), r.x, method="SLSQP", bounds=problem.inner_bounds,
                    constraints=[limit],
                )  # fmt: skip
                theta = np.clip(picked.x, low, high)
                if counted.lower(phi, theta) > least + 1e-5:
                    theta = r.x
                value = float(counted.upper(phi, theta))
                upper = min(upper, value)
                counted.claim(phi, theta, value)
            return upper

        try:
            differential_evolution(
                response, problem.outer_bounds, rng=seed, maxiter=10**6, tol=0.0, polish=False, updating="immediate"
            )
        except SpentError:
            pass
        assert counted.best is not None
        return counted.best[:2]

    return solve


def least_lower(problem: NestedProblem, phi: np.ndarray) -> float:
    """The minimum of L for this phi, from many starts."""
    rng = np.random.default_rng(0)
    points = rng.uniform(*problem.inner_bounds.T, size=(5000, len(problem.inner_bounds)))
    starts = points[np.argsort(problem.lower(phi, points))[::100][:10]]
    found = [
        minimize(lambda t: float(problem.lower(phi, t)), start, method="L-BFGS-B", bounds=problem.inner_bounds).fun
        for start in starts
    ]
    return float(min(found))


def penalty(kind: str) -> NestedProblem:
    """The penalty 10^phi of a linear regression with 4 columns, theta its coefficients, G the validation error."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=80)
    X_train, y_train, X_val, y_val = X[:20], y[:20], X[20:], y[20:]

    def error(theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.mean((theta @ X.T - y) ** 2, axis=-1)

    def lower(phi: np.ndarray, theta: np.ndarray) -> np.ndarray:
        norm = np.sum(theta**2 if kind == "ridge" else np.abs(theta), axis=-1)
        return error(theta, X_train, y_train) / 2 + 10.0 ** phi[..., 0] * norm

    def fit(phi: float) -> np.ndarray:
        if kind == "ridge":
            return np.linalg.solve(X_train.T @ X_train / 20 + 2 * 10.0**phi * np.eye(4), X_train.T @ y_train / 20)
        return Lasso(alpha=10.0**phi, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X_train, y_train).coef_

    grid = np.linspace(-3, 0.5, 351)
    i = int(np.argmin([error(fit(phi), X_val, y_val) for phi in grid]))
    around = grid[max(i - 1, 0)], grid[min(i + 1, 350)]
    best = minimize_scalar(
        lambda phi: float(error(fit(phi), X_val, y_val)), bounds=around, method="bounded", options={"xatol": 1e-9}
    )
    return NestedProblem(
        kind, lower, lambda phi, theta: error(theta, X_val, y_val) + 0.0 * phi[..., 0],
        np.array([[-3.0, 0.5]]), np.array([[-3.0, 3.0]] * 4), np.array([best.x]), fit(best.x)[None], best.fun,
    )  # fmt: skip


SOLVERS = {"nested": nested, "cold": cold, "DE + 1": evolution(1), "DE + 4": evolution(4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budgets", type=int, nargs="+", default=[30_000, 100_000])
    parser.add_argument("--problem", help="only the problems whose names contain this")
    arguments = parser.parse_args()
    problems = [*map(mitsos_barton, ("3.14", "3.17", "3.19", "3.21")), mirrlees(), nested_circle(), smd1(), smd6()]
    problems += [penalty("ridge"), penalty("lasso")]
    print(
        f"{'problem':>18} {'budget':>8} {'solver':>7} {'solved':>8} {'distance':>9} {'G':>8} {'L':>8} "
        f"{'L evals':>8} {'G evals':>8} {'s':>6}"
    )
    solved: dict[tuple[int, str], list[bool]] = {}
    for problem in problems:
        if arguments.problem and arguments.problem not in problem.name:
            continue
        for budget in arguments.budgets:
            for name, solve in SOLVERS.items():
                rows = []
                for seed in range(arguments.seeds):
                    counted, start = Counted(problem, budget), time.perf_counter()
                    phi, theta = solve(counted, seed)
                    seconds = time.perf_counter() - start
                    excess = float(problem.lower(phi, theta)) - least_lower(problem, phi)
                    rows.append(
                        [
                            problem.distance(phi, theta),
                            abs(float(problem.upper(phi, theta)) - problem.upper_opt),
                            max(excess, 0.0),
                            *counted.nfev,
                            seconds,
                        ]  # fmt: skip
                    )
                table = np.array(rows)
                # of a penalty it is the error that counts, which is flat in its logarithm
                near = table[:, 0] < (0.2 if problem.name in ("ridge", "lasso") else 0.05)
                good = near & (table[:, 1] < 0.01) & (table[:, 2] < 1e-3)
                solved.setdefault((budget, name), []).extend(good)
                distance, upper, lower, n_lower, n_upper, seconds = np.median(table, axis=0)
                print(
                    f"{problem.name:>18} {budget:>8,} {name:>7} {f'{good.sum()} of {good.size}':>8} {distance:9.1e} "
                    f"{upper:8.1e} {lower:8.1e} {n_lower:8,.0f} {n_upper:8,.0f} {seconds:6.2f}",
                    flush=True,
                )
    print("\nsolved over all problems")
    for (budget, name), good in solved.items():
        print(f"{budget:>8,} {name:>7} {np.mean(good):6.2f}")


if __name__ == "__main__":
    main()
