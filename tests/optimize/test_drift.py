import copy

import numpy as np
import pytest

from sklearn_scb2o import SCB2OOptimizer


def make(**options):
    settings = {"n_particles": 30, "random_state": 0, **options}
    return SCB2OOptimizer([(-3, 3), (-1, 5)], **settings)


def values(X):
    return (np.sum(X**2, axis=-1) - 1) ** 2, np.sum((X - [2, 1]) ** 2, axis=-1)


def test_a_drift_moves_each_particle_by_dt_times_its_velocity_before_the_step():
    # without noise the step is x - lam dt (x - m)
    opt = make(sigma=0.0, dt=0.5, lam=0.4)
    X = opt.ask()
    drift = np.random.default_rng(1).normal(size=X.shape) * 0.1
    opt.tell(*values(X), drift=drift)
    moved = np.clip(X + 0.5 * drift, [-3, -1], [3, 5])
    assert opt.ask() == pytest.approx(moved - 0.5 * 0.4 * (moved - opt.consensus), abs=1e-12)


def test_no_drift_is_a_drift_of_zeros():
    a, b = make(), make()
    for _ in range(5):
        X = a.ask()
        assert np.array_equal(X, b.ask())
        a.tell(*values(X))
        b.tell(*values(X), drift=np.zeros_like(X))


def test_a_drift_is_used_once():
    opt = make(sigma=0.0)
    opt.tell(*values(opt.ask()), drift=np.ones((30, 2)))
    X = opt.ask()
    opt.tell(*values(X))
    assert opt.ask() == pytest.approx(X - 0.8 * (X - opt.consensus), abs=1e-12)


def test_no_drift_leaves_the_box():
    opt = make()
    opt.tell(*values(opt.ask()), drift=np.full((30, 2), 1e300))
    X = opt.ask()
    assert np.all((X >= [-3, -1]) & (X <= [3, 5]))


@pytest.mark.parametrize("drift", [np.zeros((30, 1)), np.zeros(30), np.full((30, 2), np.nan)])
def test_a_wrong_drift_is_refused_and_nothing_changes(drift):
    opt = make()
    X = opt.ask()
    with pytest.raises(ValueError, match="drift"):
        opt.tell(*values(X), drift=drift)
    assert np.array_equal(opt.ask(), X)
    opt.tell(*values(X))


def test_several_runs_have_their_own_drifts():
    both = make(n_runs=2, sigma=0.0)
    X = both.ask()
    drift = np.random.default_rng(0).normal(size=X.shape) * 0.1
    both.tell(*values(X), drift=drift)
    moved = np.clip(X + 0.8 * drift, [-3, -1], [3, 5])
    assert both.ask() == pytest.approx(moved - 0.8 * (moved - both.consensus[:, None]), abs=1e-12)


def test_a_copy_keeps_the_drift():
    opt = make()
    opt.tell(*values(opt.ask()), drift=np.ones((30, 2)))
    twin, third = copy.deepcopy(opt), make()
    third.load_state_dict(opt.state_dict())
    X = opt.ask()
    assert np.array_equal(X, twin.ask())
    assert np.array_equal(X, third.ask())


def test_a_gradient_drift_brings_the_swarm_to_the_minimisers_of_a_narrow_lower_objective():
    def run(gamma):
        opt = SCB2OOptimizer([(-3, 3)] * 10, n_particles=20, random_state=3, max_iter=60)
        while not opt.stop():
            X = opt.ask()
            L, G = np.sum((X - 1) ** 2, axis=1), np.sum(X, axis=1)
            opt.tell(L, G, drift=-gamma * 2 * (X - 1))
        return np.abs(opt.consensus - 1).max()

    assert run(0.5) < 0.05 < run(0.0)
