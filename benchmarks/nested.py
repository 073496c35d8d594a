"""How well nested problems are solved, and what else one would do.

Run: python benchmarks/nested.py [--seeds K] [--first-seed S] [--budgets B ...] [--problem NAME] [--solver NAME ...]

Problems with known solution: `sklearn_scb2o.problems` (Mitsos-Barton, Mirrlees, circle, SMD1, SMD6), and the penalty of
a ridge regression and of a lasso, chosen on validation data. Solvers, each with the same number of evaluations of L:
- nested: `minimize_nested` with its defaults;
- cold: the same outer particles, but all inner runs start from the box, and are run to the end, in each iteration;
- DE + 1, DE + 4: SciPy's differential evolution over phi; for each phi L-BFGS-B on L from one or four random starts
  (and from the last solution), then SLSQP on G subject to L <= L_min + 1e-6. All finite differences count.

Prints over independent seeds how often the result is a solution (distance below 0.05, G within 0.01, and L within 1e-3
of its minimum for that phi; for the two penalties, whose logarithm hardly matters, distance below 0.2), and the means
over all seeds, failures included, with their standard deviations: of the distance, of the error of G, of L above its
minimum, of evaluations of L and G, and of seconds. Our defaults were tuned on seeds from 100 on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
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
    outer_seed, inner_seed = np.random.SeedSequence(seed).spawn(2)
    outer = SCB2OOptimizer(
        problem.outer_bounds, n_particles=like.n_outer, selection="none", beta=0.3,
        sigma=sigma_from_rate(0.12, p, 1.0, 0.8), random_state=outer_seed,
    )  # fmt: skip
    with suppress(SpentError):
        while True:
            phi = outer.ask()
            inner = SCB2OOptimizer(
                problem.inner_bounds, n_particles=like.n_inner, n_runs=like.n_outer,
                sigma=sigma_from_rate(0.2, d, 1.0, 0.8), random_state=inner_seed.spawn(1)[0],
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
    assert counted.best is not None
    return counted.best[:2]


Solver = Callable[[Counted, int], tuple[np.ndarray, np.ndarray]]


def evolution(n_starts: int) -> Solver:
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

        with suppress(SpentError):
            differential_evolution(
                response, problem.outer_bounds, rng=seed, maxiter=10**6, tol=0.0, polish=False, updating="immediate"
            )
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


SOLVERS: dict[str, Solver] = {"nested": nested, "cold": cold, "DE + 1": evolution(1), "DE + 4": evolution(4)}


def make_problems() -> list[NestedProblem]:
    problems = [*map(mitsos_barton, ("3.14", "3.17", "3.19", "3.21")), mirrlees(), nested_circle(), smd1(), smd6()]
    return [*problems, penalty("ridge"), penalty("lasso")]


def figures(problem: NestedProblem, budget: int, solve: Solver, seed: int) -> list[float]:
    """Whether it is solved, distance, error of G, L above its minimum, evaluations of L and of G, seconds."""
    counted, start = Counted(problem, budget), time.perf_counter()
    phi, theta = solve(counted, seed)
    seconds = time.perf_counter() - start
    distance, error = problem.distance(phi, theta), abs(float(problem.upper(phi, theta)) - problem.upper_opt)
    excess = max(float(problem.lower(phi, theta)) - least_lower(problem, phi), 0.0)
    near = 0.2 if problem.name in ("ridge", "lasso") else 0.05
    solved = distance < near and error < 0.01 and excess < 1e-3
    return [float(solved), distance, error, excess, *counted.nfev, seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budgets", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--problem", default="", help="only the problems whose names contain this")
    parser.add_argument("--solver", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    print(
        f"{'problem':>18} {'budget':>8} {'solver':>7} {'solved':>8} {'distance':>17} {'G':>17} {'L':>17} "
        f"{'L evals':>8} {'G evals':>8} {'s':>6}"
    )
    solved: dict[tuple[int, str], list[float]] = {}
    for problem in make_problems():
        if arguments.problem not in problem.name:
            continue
        for budget in arguments.budgets:
            for name in arguments.solver:
                table = np.array([figures(problem, budget, SOLVERS[name], seed) for seed in seeds])
                solved.setdefault((budget, name), []).extend(table[:, 0])
                mean, spread = table.mean(axis=0), table.std(axis=0)
                errors = " ".join(f"{mean[i]:8.1e}±{spread[i]:.1e}" for i in (1, 2, 3))
                count = f"{table[:, 0].sum():.0f} of {len(table)}"
                print(
                    f"{problem.name:>18} {budget:>8,} {name:>7} {count:>8} {errors} "
                    f"{mean[4]:8,.0f} {mean[5]:8,.0f} {mean[6]:6.2f}",
                    flush=True,
                )
    print("\nsolved, mean over all problems and seeds with its standard error")
    for (budget, name), good in solved.items():
        print(f"{budget:>8,} {name:>7} {np.mean(good):6.2f}±{np.std(good) / len(good) ** 0.5:.2f}")


if __name__ == "__main__":
    main()
