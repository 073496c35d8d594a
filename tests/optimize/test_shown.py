"""How optimizers and results are shown."""

import pickle

import numpy as np
import pytest

from sklearn_scb2o import NestedOptimizer, SCB2OOptimizer, minimize
from sklearn_scb2o.problems import circle


@pytest.fixture(scope="module")
def result():
    problem = circle()
    return minimize(problem.lower, problem.upper, problem.bounds, vectorized=True, max_iter=3, random_state=0)


def test_a_result_is_shown_by_its_values_and_the_names_of_its_arrays(result):
    lines = [line.strip().split(": ", 1) for line in repr(result).splitlines()]
    assert len(lines) <= 12
    shown = dict(lines)
    assert shown["nit"] == "3"
    assert float(shown["fun"]) == pytest.approx(result.fun, rel=1e-5)
    np.testing.assert_allclose(np.fromstring(shown["x"].strip("[]"), sep=" "), result.x, atol=1e-4)
    assert {*shown, *shown["and"].split(", ")} - {"and"} == set(result)


def test_the_result_of_many_runs_in_many_dimensions_fits_on_a_screen():
    optimizer = SCB2OOptimizer([(-1, 1)] * 50, n_runs=30, random_state=0)
    X = optimizer.ask()
    optimizer.tell(X[..., 0], X[..., 1])
    shown = repr(optimizer.result).splitlines()
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 130


def test_the_text_of_a_result_is_escaped_in_its_table(result):
    changed = pickle.loads(pickle.dumps(result))
    changed.message = "1 < 2"
    assert "<td>1 &lt; 2</td>" in changed._repr_html_()


@pytest.mark.parametrize(
    "optimizer", [SCB2OOptimizer([(0, 1)]), NestedOptimizer([(0, 1)], [(0, 1)])], ids=["plain", "nested"]
)
def test_an_optimizer_is_shown_in_a_line_and_in_a_notebook_with_what_it_has_found(optimizer):
    assert len(repr(optimizer).splitlines()) == 1
    page = optimizer._repr_html_()
    assert repr(optimizer).split("(")[0] in page
    assert "<th>lower_fun</th>" in page
