"""
Calibrating a simulator whose data do not identify all parameters
=================================================================

An epidemic is simulated by the SIR equations with a lockdown that lowers the contact rate. We observe noisy numbers of
infected people during the first weeks. Many combinations of contact rate, recovery rate and initially infected explain
these data about equally well. Among all that do, which one is closest to what earlier studies found?

- lower objective L: misfit between simulation and data. Every point within the noise counts as a minimiser
  (``lower_tol``);
- upper objective G: distance to the prior values, in units of their uncertainty.

The simulator is a black box to the optimizer: ask for parameters, run it, tell the values.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

from sklearn_scb2o import SCB2OOptimizer

POPULATION = 1e5
DAYS = np.arange(0, 22)
NAMES = ("contact rate", "recovery rate", "log10 initially infected", "effect of lockdown")
BOUNDS = [(0.1, 1.0), (0.05, 0.5), (0.5, 3.0), (0.0, 0.9)]
PRIOR, PRIOR_STD = np.array([0.40, 0.14, 1.5, 0.5]), np.array([0.10, 0.03, 0.5, 0.2])


def simulate(parameters, days=DAYS):
    """Infected people on the given days; the lockdown begins on day 15."""
    contact, recovery, log_infected, effect = parameters

    def rates(t, state):
        susceptible, infected = state
        rate = contact * (1.0 - effect / (1.0 + np.exp(-2.0 * (t - 15.0))))
        new = rate * susceptible * infected / POPULATION
        return [-new, new - recovery * infected]

    start = [POPULATION - 10**log_infected, 10**log_infected]
    return solve_ivp(rates, (0, days[-1]), start, t_eval=days, method="LSODA", rtol=1e-6).y[1]


# %%
# Synthetic observations, with 5 per cent noise.

truth = np.array([0.45, 0.16, 1.3, 0.6])
noise = 0.05
data = simulate(truth) * np.exp(noise * np.random.default_rng(0).standard_normal(DAYS.size))


def misfit(parameters):
    """Root mean square error of the logarithm of the infected."""
    return np.sqrt(np.mean(np.log(simulate(parameters) / data) ** 2))


def distance_to_prior(parameters):
    return np.sum(((parameters - PRIOR) / PRIOR_STD) ** 2)


# %%
# The loop. ``needs_upper`` would say on which rows G matters, if it were expensive too. A misfit up to 0.01 above the
# best one, which is well within the noise, counts as an explanation of the data. The misfit is a narrow, curved valley
# and the prior pulls across it, so the lower quantile ``beta`` is chosen small: a step is led by the best fits only.

optimizer = SCB2OOptimizer(BOUNDS, n_particles=40, beta=0.05, lower_tol=0.01, max_iter=100, random_state=0)
while not optimizer.stop():
    X = optimizer.ask()
    L = [misfit(x) for x in X]
    G = [distance_to_prior(x) for x in X]
    optimizer.tell(L, G)

found = optimizer.consensus
optimizer.tell_consensus(misfit(found), distance_to_prior(found))
result = optimizer.result
print(f"{result.nfev} simulations, misfit {result.lower_fun:.4f} (noise {noise}), distance to prior {result.fun:.3f}")
print(f"{'':>26} {'found':>8} {'prior':>8} {'truth':>8}")
for name, *values in zip(NAMES, result.x, PRIOR, truth, strict=True):
    print(f"{name:>26} " + " ".join(f"{v:8.3f}" for v in values))

# %%
# For comparison: the plain fit, without an upper objective. It explains the data as well, with parameters farther from
# the prior.

fit = SCB2OOptimizer(BOUNDS, n_particles=40, selection="none", max_iter=60, random_state=0)
while not fit.stop():
    fit.tell(None, [misfit(x) for x in fit.ask()])
print(f"\nplain fit: misfit {misfit(fit.consensus):.4f}, distance to prior {distance_to_prior(fit.consensus):.3f}")
assert misfit(result.x) < noise
assert distance_to_prior(result.x) < distance_to_prior(fit.consensus)

# %%
# The data end a week after the lockdown has begun, and hardly say what it does: models that fit equally well differ in
# what they expect, and the prior decides between them.

later = np.arange(0, 61)
plt.figure(figsize=(7, 4), layout="constrained")
plt.plot(DAYS, data, "ko", label="observed")
plt.plot(later, simulate(result.x, later), label="closest to the prior among those that fit")
plt.plot(later, simulate(fit.consensus, later), "--", label="plain fit")
plt.plot(later, simulate(truth, later), ":", color="black", label="truth")
plt.gca().set(xlabel="day", ylabel="infected", yscale="log")
plt.legend()
plt.show()
