import copy
import pickle

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, mean_absolute_error, mean_squared_error
from sklearn.model_selection import cross_validate
from sklearn.utils.metadata_routing import get_routing_for_object

from sklearn_scb2o.model_selection.fair_criteria import (
    DemographicParityGap,
    EqualizedOddsGap,
    ExpectedCalibrationError,
    WorstGroupLoss,
)
from sklearn_scb2o.model_selection.metrics import (
    demographic_parity_gap,
    equalized_odds_gap,
    expected_calibration_error,
    worst_group_loss,
)

GAPS = [demographic_parity_gap, equalized_odds_gap]
GROUP_METRICS = [*GAPS, worst_group_loss]
CRITERIA = [DemographicParityGap, EqualizedOddsGap, WorstGroupLoss, ExpectedCalibrationError]


# The definitions, row by row.


def rate(y_pred, rows, label, weights):
    total = sum(weights[i] for i in rows)
    return sum(weights[i] for i in rows if y_pred[i] == label) / total if total else None


def spread(rates):
    rates = [r for r in rates if r is not None]
    return max(rates) - min(rates) if rates else 0.0


def slow_gap(y_pred, groups, weights, belongs):
    """Largest gap over labels; belongs(i, label) says whether a row enters the rate."""
    rows = range(len(y_pred))
    return max(
        spread(
            rate(y_pred, [i for i in rows if groups[i] == g and belongs(i, label)], label, weights) for g in set(groups)
        )
        for label in set(y_pred)
    )


def slow_parity(y_true, y_pred, groups, weights):
    return slow_gap(y_pred, groups, weights, lambda i, label: True)


def slow_odds(y_true, y_pred, groups, weights):
    return max(
        slow_gap(y_pred, groups, weights, lambda i, label: y_true[i] == label),
        slow_gap(y_pred, groups, weights, lambda i, label: y_true[i] != label),
    )


def slow_worst(y_true, y_pred, groups, weights):
    worst = []
    for g in set(groups):
        rows = [i for i in range(len(groups)) if groups[i] == g and weights[i] > 0]
        if rows:
            wrong = sum(weights[i] for i in rows if y_true[i] != y_pred[i])
            worst.append(wrong / sum(weights[i] for i in rows))
    return max(worst)


def slow_calibration(hits, confidence, weights, n_bins):
    error = 0.0
    for m in range(n_bins):
        rows = [
            i
            for i, p in enumerate(confidence)
            if m / n_bins < p <= (m + 1) / n_bins or (m == 0 and p == 0.0)  # intervals (a, b]
        ]
        mass = sum(weights[i] for i in rows)
        if mass:
            accuracy = sum(weights[i] * hits[i] for i in rows) / mass
            mean = sum(weights[i] * confidence[i] for i in rows) / mass
            error += mass / sum(weights) * abs(accuracy - mean)
    return error


SLOW = {demographic_parity_gap: slow_parity, equalized_odds_gap: slow_odds, worst_group_loss: slow_worst}


@st.composite
def tables(draw, labels="abc"):
    rows = st.tuples(st.sampled_from(labels), st.sampled_from(labels), st.sampled_from("xyz"), st.integers(0, 3))
    drawn = draw(st.lists(rows, min_size=1, max_size=30).filter(lambda rows: any(row[3] for row in rows)))
    y_true, y_pred, groups, weights = (np.array(column) for column in zip(*drawn, strict=True))
    return y_true, y_pred, groups, weights


# Values.


@pytest.mark.parametrize("metric", GROUP_METRICS)
@given(table=tables())
def test_group_metrics_follow_their_definition(metric, table):
    y_true, y_pred, groups, weights = table
    value = metric(y_true, y_pred, sensitive_features=groups, sample_weight=weights)
    assert value == pytest.approx(SLOW[metric](y_true, y_pred, groups, weights), abs=1e-12)
    assert 0.0 <= value <= 1.0
    ones = np.ones(len(groups))
    assert metric(y_true, y_pred, sensitive_features=groups) == pytest.approx(
        SLOW[metric](y_true, y_pred, groups, ones), abs=1e-12
    )


@pytest.mark.parametrize("metric", GROUP_METRICS)
@given(table=tables(), seed=st.integers(0, 99))
def test_group_metrics_ignore_order_and_names(metric, table, seed):
    y_true, y_pred, groups, weights = table
    value = metric(y_true, y_pred, sensitive_features=groups, sample_weight=weights)
    order = np.random.default_rng(seed).permutation(len(groups))
    shuffled = metric(y_true[order], y_pred[order], sensitive_features=groups[order], sample_weight=weights[order])
    assert shuffled == pytest.approx(value, abs=1e-12)
    numbers = np.array([{"x": 2.0, "y": -1.0, "z": 7.5}[g] for g in groups])
    for renamed in (numbers, groups.astype(object), list(groups)):
        again = metric(y_true.astype(object), y_pred, sensitive_features=renamed, sample_weight=weights)
        assert again == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("metric", GROUP_METRICS)
@given(table=tables())
def test_integer_weights_are_repeated_rows(metric, table):
    y_true, y_pred, groups, weights = table
    rows = np.repeat(np.arange(len(groups)), weights)
    repeated = metric(y_true[rows], y_pred[rows], sensitive_features=groups[rows])
    weighted = metric(y_true, y_pred, sensitive_features=groups, sample_weight=0.1 * weights)
    assert weighted == pytest.approx(repeated, abs=1e-12)


@pytest.mark.parametrize("metric", GAPS)
@given(table=tables(labels="ab"))
def test_either_of_two_classes_may_be_the_positive_one(metric, table):
    y_true, y_pred, groups, _ = table
    value = metric(y_true, y_pred, sensitive_features=groups)
    for label in set(y_true) | set(y_pred):
        chosen = metric(y_true, y_pred, sensitive_features=groups, pos_label=label)
        assert chosen == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("metric", GAPS)
@given(table=tables())
def test_several_classes_give_the_largest_of_their_gaps(metric, table):
    y_true, y_pred, groups, _ = table
    each = [metric(y_true, y_pred, sensitive_features=groups, pos_label=c) for c in set(y_true) | set(y_pred)]
    assert metric(y_true, y_pred, sensitive_features=groups) == pytest.approx(max(each), abs=1e-12)


@given(table=tables())
def test_fair_predictors_have_no_gap(table):
    y_true, y_pred, groups, _ = table
    constant = np.full_like(y_true, "a")
    assert demographic_parity_gap(y_true, constant, sensitive_features=groups) == 0.0
    assert equalized_odds_gap(y_true, constant, sensitive_features=groups) == 0.0
    assert equalized_odds_gap(y_true, y_true, sensitive_features=groups) == 0.0
    assert worst_group_loss(y_true, y_true, sensitive_features=groups) == 0.0
    # the same rows in each group
    twice, two = (np.tile(y_true, 2), np.tile(y_pred, 2)), np.repeat([0, 1], len(groups))
    assert demographic_parity_gap(*twice, sensitive_features=two) == 0.0
    assert equalized_odds_gap(*twice, sensitive_features=two) == 0.0


def test_closed_forms():
    groups = np.repeat(["a", "b"], 4)
    y_true, y_pred = np.array([1, 1, 0, 0, 1, 1, 0, 0]), np.array([1, 1, 1, 0, 1, 0, 0, 0])
    assert demographic_parity_gap(y_true, y_pred, sensitive_features=groups) == 0.5
    assert demographic_parity_gap(None, y_pred, sensitive_features=groups) == 0.5
    assert equalized_odds_gap(y_true, y_pred, sensitive_features=groups) == 0.5
    assert demographic_parity_gap(y_true, groups == "a", sensitive_features=groups) == 1.0
    assert worst_group_loss(y_true, y_pred, sensitive_features=groups) == 0.25


def test_groups_without_rows_of_a_class_are_left_out_of_its_rate():
    # group b has no positive row; its false-positive rate is that of a
    assert equalized_odds_gap([1, 0, 0, 0], [1, 0, 0, 0], sensitive_features=list("aabb")) == 0.0
    assert equalized_odds_gap([1, 1], [1, 0], sensitive_features=["a", "a"]) == 0.0


@pytest.mark.parametrize(
    ("loss", "reference"), [("squared_error", mean_squared_error), ("absolute_error", mean_absolute_error)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_worst_regression_loss(loss, reference, weighted):
    rng = np.random.default_rng(0)
    y_true, y_pred, groups = rng.normal(size=50), rng.normal(size=50), rng.integers(0, 3, 50)
    weights = rng.random(50) if weighted else None
    expected = max(
        reference(y_true[groups == g], y_pred[groups == g], sample_weight=weights[groups == g] if weighted else None)
        for g in range(3)
    )
    value = worst_group_loss(y_true, y_pred, sensitive_features=groups, loss=loss, sample_weight=weights)
    assert value == pytest.approx(expected)


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"], ["c", "a", "b"]])
def test_worst_log_loss(labels):
    rng = np.random.default_rng(1)
    y_true, groups = rng.choice(labels, 60), rng.choice(["u", "v"], 60)
    y_prob = rng.dirichlet(np.ones(len(labels)), 60)
    y_prob[0] = np.eye(len(labels))[labels.index(y_true[0]) - 1]  # probability 0 of the true label is clipped
    columns = np.argsort(labels)
    expected = max(
        log_loss(y_true[groups == g], y_prob[groups == g][:, columns], labels=sorted(labels)) for g in ("u", "v")
    )
    value = worst_group_loss(y_true, y_prob, sensitive_features=groups, loss="log_loss", labels=labels)
    assert value == pytest.approx(expected)
    if len(labels) == 2:
        flat = worst_group_loss(y_true, y_prob[:, 1], sensitive_features=groups, loss="log_loss")
        assert flat == pytest.approx(expected)


def test_loss_of_ones_own():
    value = worst_group_loss(
        [1.0, 2.0, 3.0], [1.0, 4.0, 9.0], sensitive_features=[0, 0, 1], loss=lambda y, p: np.maximum(p - y, 0.0)
    )
    assert value == 6.0


probabilities = st.one_of(st.floats(0, 1, allow_subnormal=False), st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]))


@given(
    rows=st.lists(st.tuples(probabilities, st.booleans(), st.integers(1, 3)), min_size=1, max_size=30),
    n_bins=st.sampled_from([1, 2, 4, 8]),  # edges without rounding
)
def test_calibration_error_follows_its_definition(rows, n_bins):
    prob, hit, weights = (np.array(column) for column in zip(*rows, strict=True))
    value = expected_calibration_error(hit, prob, n_bins=n_bins, sample_weight=weights)
    assert value == pytest.approx(slow_calibration(hit, prob, weights, n_bins), abs=1e-12)
    assert 0.0 <= value <= 1.0


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@given(
    rows=st.lists(st.tuples(probabilities, st.booleans(), st.integers(0, 3)), min_size=1, max_size=30).filter(
        lambda rows: any(row[2] for row in rows)
    ),
    seed=st.integers(0, 99),
)
def test_calibration_error_of_repeated_and_shuffled_rows(strategy, rows, seed):
    prob, hit, weights = (np.array(column) for column in zip(*rows, strict=True))
    value = expected_calibration_error(hit, prob, strategy=strategy, n_bins=5, sample_weight=weights)
    repeat = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(rows)), weights))
    again = expected_calibration_error(hit[repeat], prob[repeat], strategy=strategy, n_bins=5)
    assert again == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_calibrated_probabilities_have_no_error(strategy):
    prob = np.repeat([0.1, 0.3, 0.5, 0.9], 10)
    y_true = np.concatenate([np.arange(10) < 10 * p for p in (0.1, 0.3, 0.5, 0.9)]).astype(int)
    assert expected_calibration_error(y_true, prob, strategy=strategy, n_bins=4) == pytest.approx(0.0, abs=1e-12)
    assert expected_calibration_error(1 - y_true, 0 * prob, strategy=strategy) == pytest.approx(np.mean(1 - y_true))


def test_calibration_error_is_at_most_the_root_of_the_brier_score():
    rng = np.random.default_rng(2)
    y_true, prob = rng.integers(0, 2, 200), rng.random(200)
    assert expected_calibration_error(y_true, prob) <= np.sqrt(brier_score_loss(y_true, prob))


def test_quantile_bins_hold_equal_weight():
    # two bins of two rows each: |1 - 0.3| / 2 and |0 - 0.7| / 2
    value = expected_calibration_error([1, 1, 0, 0], [0.25, 0.35, 0.65, 0.75], n_bins=2, strategy="quantile")
    assert value == pytest.approx(0.7)


def test_top_label_calibration():
    rng = np.random.default_rng(3)
    labels = ["p", "q", "r"]
    y_true, y_prob = rng.choice(labels, 80), rng.dirichlet(np.ones(3), 80)
    hits = [labels[row.argmax()] == y for row, y in zip(y_prob, y_true, strict=True)]
    expected = slow_calibration(hits, y_prob.max(axis=1), np.ones(80), 8)
    assert expected_calibration_error(y_true, y_prob, n_bins=8) == pytest.approx(expected)
    turned = expected_calibration_error(y_true, y_prob[:, ::-1], labels=labels[::-1], n_bins=8)
    assert turned == pytest.approx(expected)


def test_positive_class_of_the_calibration_error():
    y, prob = np.array(["no", "yes", "yes"]), np.array([0.2, 0.9, 0.6])
    expected = expected_calibration_error([0, 1, 1], prob)
    assert expected_calibration_error(y, prob, pos_label="yes") == pytest.approx(expected)
    assert expected_calibration_error([-1, 1, 1], prob) == pytest.approx(expected)
    with pytest.raises(ValueError, match="pos_label="):
        expected_calibration_error(y, prob)
    with pytest.raises(ValueError, match="not in y_true"):
        expected_calibration_error(y, prob, pos_label="maybe")
    with pytest.raises(ValueError, match="two classes"):
        expected_calibration_error(["a", "b", "c"], prob, pos_label="a")


# Errors.


@pytest.mark.parametrize("metric", GROUP_METRICS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_pred": [0, 1]}, "inconsistent numbers"),
        ({"sensitive_features": [0, 1]}, "inconsistent numbers"),
        ({"y_true": [[0, 1], [1, 0], [1, 1]]}, "1d array"),
        ({"y_true": [0.0, np.nan, 1.0]}, "NaN"),
        ({"y_pred": [0.0, np.inf, 1.0]}, "infinity"),
        ({"y_pred": ["0", "1", "1"]}, "both text or both numbers"),
        ({"y_true": [], "y_pred": [], "sensitive_features": []}, "no rows"),
        ({"sensitive_features": [0.0, np.nan, 1.0]}, "NaN"),
        ({"sensitive_features": np.array(["a", None, "b"], dtype=object)}, "missing values"),
        ({"sensitive_features": np.array(["a", np.nan, "b"], dtype=object)}, "missing values"),
        ({"sample_weight": [1.0, 1.0]}, "2 entries for 3 rows"),
        ({"sample_weight": [1.0, -1.0, 1.0]}, "non-negative"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, "not all zero"),
        ({"sample_weight": [1.0, np.nan, 0.0]}, "NaN"),
    ],
)
def test_what_group_metrics_refuse(metric, changes, message):
    given = {"y_true": [0, 1, 1], "y_pred": [0, 1, 0], "sensitive_features": ["a", "b", "b"], **changes}
    with pytest.raises(ValueError, match=message):
        metric(given.pop("y_true"), given.pop("y_pred"), **given)


@pytest.mark.parametrize("metric", GROUP_METRICS)
def test_a_continuous_sensitive_column_is_to_be_binned(metric):
    y = np.tile([0, 1], 21)
    with pytest.raises(ValueError, match="bin it"):
        metric(y, y, sensitive_features=np.arange(42) // 2)
    assert metric(y, y, sensitive_features=np.arange(42) // 2.1) >= 0.0  # 20 values
    assert metric(y, y, sensitive_features=(np.arange(42) // 2).astype(str)) >= 0.0


@pytest.mark.parametrize("metric", GAPS)
def test_gaps_need_labels(metric):
    with pytest.raises(ValueError, match="not continuous"):
        metric([0, 1, 1], [0.2, 0.4, 1.0], sensitive_features=[0, 1, 1])
    with pytest.raises(ValueError, match="pos_label=5"):
        metric([0, 1, 1], [0, 0, 1], sensitive_features=[0, 1, 1], pos_label=5)


@pytest.mark.parametrize(
    ("y_prob", "options", "message"),
    [
        ([0.2, 1.4], {}, "lie in"),
        ([[0.2, 0.2], [0.5, 0.5]], {}, "sum to one"),
        ([0.2, np.nan], {}, "NaN"),
        ([[[0.2]], [[0.3]]], {}, "dim"),
        ([[0.2, 0.4, 0.4], [1.0, 0.0, 0.0]], {}, "pass labels="),
        ([[0.2, 0.8], [1.0, 0.0]], {"labels": [1, 2]}, "not in labels"),
    ],
)
def test_what_probabilities_refuse(y_prob, options, message):
    with pytest.raises(ValueError, match=message):
        worst_group_loss([0, 1], y_prob, sensitive_features=[0, 1], loss="log_loss", **options)
    with pytest.raises(ValueError, match=message):
        expected_calibration_error([0, 1], y_prob, **options)


def test_invalid_options():
    for n_bins in (0, 2.0, True):
        with pytest.raises(ValueError, match="n_bins"):
            ExpectedCalibrationError(n_bins=n_bins)
    with pytest.raises(ValueError, match="strategy"):
        expected_calibration_error([0, 1], [0.1, 0.9], strategy="equal")
    with pytest.raises(ValueError, match="loss must be one of"):
        WorstGroupLoss(loss="hinge")
    with pytest.raises(ValueError, match="one value per row"):
        worst_group_loss([0, 1], [0, 1], sensitive_features=[0, 1], loss=lambda y, p: 1.0)
    with pytest.raises(ValueError, match="numeric targets"):
        worst_group_loss(["a", "b"], ["a", "b"], sensitive_features=[0, 1], loss="squared_error")
    for sensitive in (True, 1.5, ["a"]):
        with pytest.raises(TypeError, match="sensitive must be"):
            EqualizedOddsGap(sensitive=sensitive)


# Criteria.


@pytest.fixture(params=[int, str])
def fitted(request):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 3))
    X[:, 1] = rng.integers(0, 2, 120)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=120) > 0.5).astype(int)
    if request.param is str:
        y = np.where(y == 1, "yes", "no")
    return LogisticRegression().fit(X, y), X, y


def test_criteria_are_the_metrics_of_the_predictions(fitted):
    model, X, y = fitted
    labels, y_prob, weights = model.predict(X), model.predict_proba(X), np.linspace(0.0, 1.0, len(y))
    options = {"sensitive_features": X[:, 1], "sample_weight": weights}
    assert WorstGroupLoss()(model, X, y, **options) == worst_group_loss(y, labels, **options)
    assert WorstGroupLoss(loss="log_loss")(model, X, y, **options) == worst_group_loss(
        y, y_prob, loss="log_loss", **options
    )
    assert DemographicParityGap()(model, X, y, **options) == demographic_parity_gap(y, labels, **options)
    assert EqualizedOddsGap(pos_label=y[0])(model, X, y, **options) == pytest.approx(
        equalized_odds_gap(y, labels, **options)
    )
    assert ExpectedCalibrationError(n_bins=7)(model, X, y, **options) == expected_calibration_error(
        y, y_prob[:, 1], n_bins=7, pos_label=model.classes_[1], sample_weight=weights
    )


def test_criteria_know_the_labels_that_the_rows_lack(fitted):
    model, X, y = fitted
    rows = y == y[0]
    assert ExpectedCalibrationError()(model, X[rows], y[rows]) > 0.0
    assert WorstGroupLoss(loss="log_loss", sensitive=1)(model, X[rows], y[rows]) > 0.0


def test_multiclass_calibration_and_regression():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(90, 2)), np.repeat(["a", "b", "c"], 30)
    model = LogisticRegression().fit(X, y)
    value = ExpectedCalibrationError()(model, X, y)
    assert value == expected_calibration_error(y, model.predict_proba(X))
    target = X[:, 0] ** 2
    regression = LinearRegression().fit(X, target)
    assert WorstGroupLoss(loss="squared_error", sensitive=lambda X: X[:, 1] > 0)(regression, X, target) > 0.0


@pytest.mark.parametrize("criterion", [WorstGroupLoss, DemographicParityGap, EqualizedOddsGap])
def test_ways_to_name_the_groups(fitted, criterion):
    model, X, y = fitted
    expected = criterion()(model, X, y, sensitive_features=X[:, 1])
    for sensitive in (1, -2, np.int64(1), group_of):
        assert criterion(sensitive=sensitive)(model, X, y) == expected
    assert criterion(sensitive=1)(model, X.tolist(), y) == expected
    assert criterion(sensitive=1)(model, sparse.csr_array(X), y) == expected
    with pytest.raises(ValueError, match=r"pass sensitive_features=.*sensitive="):
        criterion()(model, X, y)
    with pytest.raises(ValueError, match="drop sensitive_features"):
        criterion(sensitive=1)(model, X, y, sensitive_features=X[:, 1])
    with pytest.raises(TypeError, match="index"):
        criterion(sensitive="sex")(model, X, y)
    with pytest.raises(ValueError, match="bin it"):
        criterion(sensitive=0)(model, X, y)


def group_of(X):
    return X[:, 1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_frames(library):
    frames = pytest.importorskip(library)
    X = frames.DataFrame({"age": [0.1, 0.9, 0.2, 0.8], "sex": [0, 0, 1, 1]})
    y, model = np.array([0, 1, 0, 1]), Sign()
    for sensitive in ("sex", 1):
        assert WorstGroupLoss(sensitive=sensitive)(model, X, y) == 0.0
        assert DemographicParityGap(sensitive=sensitive)(model, X, y) == 0.0
    assert DemographicParityGap()(model, X, y, sensitive_features=frames.Series(["a", "b", "a", "b"])) == 1.0
    with pytest.raises(ValueError, match="no column"):
        WorstGroupLoss(sensitive="race")(model, X, y)
    with pytest.raises(ValueError, match=r"missing values|NaN"):
        DemographicParityGap()(model, X, y, sensitive_features=frames.Series(["a", None, "a", "b"]))


class Sign(BaseEstimator):
    def predict(self, X):
        return (np.asarray(X["age"]) > 0.5).astype(int)


@pytest.mark.parametrize(
    "criterion",
    [
        WorstGroupLoss(loss="log_loss", sensitive=2),
        WorstGroupLoss(sensitive=group_of),
        DemographicParityGap(pos_label="yes"),
        EqualizedOddsGap(sensitive="sex"),
        ExpectedCalibrationError(n_bins=5, strategy="quantile"),
    ],
)
def test_criteria_are_values(criterion):
    for twin in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion)), sklearn.clone(criterion, safe=False)):
        assert twin == criterion
        assert hash(twin) == hash(criterion)
        assert repr(twin) == repr(criterion)
    assert criterion not in [kind() for kind in CRITERIA]
    name = criterion.__dataclass_fields__.keys() - {"_requests"}
    with pytest.raises(AttributeError):
        setattr(criterion, min(name), None)
    if criterion != WorstGroupLoss(sensitive=group_of):
        assert eval(repr(criterion)) == criterion


# Metadata routing.


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def requests(criterion):
    request = get_routing_for_object(criterion)
    return request.score.requests


def test_default_requests():
    assert requests(WorstGroupLoss()) == {"sensitive_features": True, "sample_weight": None}
    assert requests(WorstGroupLoss(sensitive=1)) == {"sensitive_features": False, "sample_weight": None}
    assert requests(ExpectedCalibrationError()) == {"sensitive_features": False, "sample_weight": None}


@pytest.mark.usefixtures("routing")
def test_requests_can_be_changed():
    criterion = WorstGroupLoss()
    assert criterion.set_score_request(sample_weight=True) is criterion
    assert requests(criterion) == {"sensitive_features": True, "sample_weight": True}
    criterion.set_score_request(sensitive_features="sex")
    assert requests(criterion) == {"sensitive_features": "sex", "sample_weight": True}
    assert requests(copy.deepcopy(criterion)) == requests(pickle.loads(pickle.dumps(criterion))) == requests(criterion)
    assert criterion != WorstGroupLoss()
    with pytest.raises(ValueError, match="alias"):
        criterion.set_score_request(sample_weight=3)
    assert requests(criterion) == {"sensitive_features": "sex", "sample_weight": True}


def test_requests_need_routing_enabled():
    with pytest.raises(RuntimeError, match="enable_metadata_routing"):
        WorstGroupLoss().set_score_request(sample_weight=True)


@pytest.mark.usefixtures("routing")
def test_scikit_learn_routes_the_groups(fitted):
    model, X, y = fitted
    groups = np.where(X[:, 1] > 0, "f", "m")
    result = cross_validate(model, X, y, cv=3, scoring=WorstGroupLoss(), params={"sensitive_features": groups})
    column = cross_validate(model, X, y, cv=3, scoring=WorstGroupLoss(sensitive=1))
    np.testing.assert_array_equal(result["test_score"], column["test_score"])
    weights = np.where(X[:, 2] > 0, 2.0, 1.0)
    weighted = cross_validate(
        model.set_fit_request(sample_weight=False),
        X,
        y,
        cv=3,
        scoring={"worst": WorstGroupLoss().set_score_request(sample_weight="w")},
        params={"sensitive_features": groups, "w": weights},
    )
    assert np.any(weighted["test_worst"] != result["test_score"])
