import numpy as np

from sklearn_scb2o import minimize

BOX = [(-3.0, 3.0), (-3.0, 3.0)]
SOLUTION = [2 / 5**0.5, 1 / 5**0.5]  #: of `values`


def values(X):
    """Circle, and the point of it that is closest to (2, 1, 1, ...); over the last axis."""
    X = np.asarray(X, dtype=float)
    target = np.ones(X.shape[-1])
    target[0] = 2.0
    return (np.sum(X * X, axis=-1) - 1.0) ** 2, np.sum((X - target) ** 2, axis=-1)


def advance(opt, n, f=values):
    """Make n iterations; the batches asked."""
    asked = []
    for _ in range(n):
        X = opt.ask()
        asked.append(np.array(np.asarray(X)))
        opt.tell(*f(X))
    return asked


def same(a, b):
    """Equality to the bit of lists of arrays, NaN included."""
    return len(a) == len(b) and all(
        np.asarray(p).tobytes() == np.asarray(q).tobytes() and np.shape(p) == np.shape(q)
        for p, q in zip(a, b, strict=True)
    )


def lower(x):
    return values(x)[0]


def upper(x):
    return values(x)[1]


class Counted:
    """A function that counts the points it is called with."""

    def __init__(self, f):
        self.f, self.n, self.seen = f, 0, []

    def __call__(self, x, *args):
        self.n += 1 if x.ndim == 1 else len(x)
        self.seen.extend(np.array(np.atleast_2d(x)))
        return self.f(x, *args)


def small(*functions, **options):
    return minimize(
        *(functions or (lower, upper)),
        **{"bounds": BOX, "n_particles": 20, "max_iter": 10, "random_state": 0, **options},
    )


def assert_same_result(a, b):
    assert same([a.x, a.consensus.x, a.best.x, a.population.x], [b.x, b.consensus.x, b.best.x, b.population.x])
    assert (a.fun, a.lower_fun, a.nit, a.n_failed) == (b.fun, b.lower_fun, b.nit, b.n_failed)


def assert_equal_results(a, b):
    a, b = a.result, b.result
    for name in ("x", "fun", "lower_fun", "nit", "nfev_lower", "nfev_upper", "n_failed"):
        assert same([a[name]], [b[name]]), name
    for part in ("consensus", "best", "population"):
        assert same(list(a[part].values()), list(b[part].values())), part
    assert same(list(a.history.values()), list(b.history.values()))


# where the run is cut: after a tell, with a pending batch, with injected points, before anything
CUTS = {
    "told": lambda opt: advance(opt, 4),
    "pending": lambda opt: (advance(opt, 4), opt.ask()),
    "injected": lambda opt: (advance(opt, 4), opt.inject([[0.5, 0.5], [1.0, 0.25]])),
    "pending and injected": lambda opt: (advance(opt, 4), opt.ask(), opt.inject([[0.5, 0.5]])),
    "consensus told": lambda opt: (advance(opt, 4), opt.tell_consensus(0.5, 0.25)),
    "new": lambda opt: None,
    "first batch": lambda opt: opt.ask(),
}


def adding(f, archive):
    """The function, whose values go to the archive."""

    def evaluate(z):
        values = f(z)
        archive.add(z, *values)
        return values

    return evaluate
