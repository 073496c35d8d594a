"""
A simulator on a cluster
========================

A batch reactor turns A into the product B, which decays into C. We choose its temperature at the beginning and at the
end, the duration, and how much A is put in, such that it is as cheap as can be; and the simulator of the reactor must
confirm that enough of A becomes B, that little of it becomes C, and that the cooling can take the heat.

- lower objective L: by how much the requirements are violated. Every design that violates none is a minimiser;
- upper objective G: the cost of a kilogram of the product.

A simulation takes milliseconds here and hours elsewhere. A dask cluster runs them: two processes on this machine,
and with another line for the cluster as many as SLURM, Kubernetes or a cloud has. Their run times differ, so each
worker gets a new design as soon as it is free (``asynchronous=True``).
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster
from scipy.integrate import solve_ivp

from sklearn_scb2o import minimize
from sklearn_scb2o.plotting import ParallelCoordinatesDisplay

NAMES = ("K at the beginning", "K at the end", "hours", "kg of A")
BOUNDS = [(300.0, 400.0), (300.0, 400.0), (0.5, 12.0), (50.0, 500.0)]


def reactor(design):
    """Parts of A that are left, and that have become B and C; the largest heat flow in kW."""
    start, end, hours, mass = design

    def rates(t, state):
        temperature = start + (end - start) * t / hours
        reacts = 4e6 * np.exp(-5.2e3 / temperature) * state[0]
        decays = 9e9 * np.exp(-8.4e3 / temperature) * state[1]
        return [-reacts, reacts - decays, decays]

    solution = solve_ivp(rates, (0.0, hours), [1.0, 0.0, 0.0], method="LSODA", rtol=1e-6, max_step=hours / 20)
    heat = mass * 0.25 * np.max(np.abs(np.gradient(solution.y[0], solution.t)))
    return solution.y[:, -1], heat


def simulate(design):
    """Violation of the requirements, and cost of a kilogram; with the process and the times, for the picture."""
    start, end, hours, mass = design
    (_, product, waste), heat = reactor(design)
    violation = max(0.0, 0.75 - product) ** 2 + max(0.0, waste - 0.1) ** 2 + max(0.0, heat / 40.0 - 1.0) ** 2
    heating = mass * 1e-3 * (max(start, end) - 300.0)
    return violation, (90.0 + 30.0 * hours + heating + 0.6 * mass) / (mass * max(product, 0.01))


# %%
# The cluster and the optimizer. ``workers`` is an executor; ``with joblib.parallel_config("dask")`` and ``workers=-1``
# would do as well, batch by batch. A worker that dies is replaced, and its designs are simulated by another one.


def main():
    states = []

    def keep(intermediate_result):
        states.append(intermediate_result)

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        began = time.perf_counter()
        result = minimize(
            simulate,
            bounds=BOUNDS,
            workers=client.get_executor(),
            asynchronous=True,
            on_error="fail",
            callback=keep,
            n_particles=50,
            beta=0.05,  # few lead: the designs that meet all requirements are a small part of the box
            max_evals=600,
            lower_tol=1e-6,
            random_state=0,
        )
        seconds = time.perf_counter() - began
    (_, product, waste), heat = reactor(result.x)
    print(f"{result.nfev} simulations in {seconds:.1f} s, {result.n_failed} failed")
    print("\n".join(f"{name:<20}{value:8.1f}" for name, value in zip(NAMES, result.x, strict=True)))
    print(
        f"{product:.1%} product, {waste:.1%} waste, {heat:.1f} kW, cost {result.fun:.3f} per kg, "
        f"L = {result.lower_fun:.1e}"
    )

    ParallelCoordinatesDisplay.from_result(states, BOUNDS, names=NAMES, lower_tol=1e-6)
    plt.show()


if __name__ == "__main__":
    main()
