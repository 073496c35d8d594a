import contextlib
import json
import math
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from fuzz_cases import damage
from optimize_cases import advance, assert_equal_results, same, values

from sklearn_scb2o import CheckpointError, SCB2OOptimizer, SCB2OWarning
from sklearn_scb2o.optimize.calls import Call, Outcome
from sklearn_scb2o.optimize.checkpoint import Checkpoint, read_checkpoint
from sklearn_scb2o.optimize.journal import Journal, JournaledPool
from sklearn_scb2o.optimize.workers import make_pool

POINT = np.array([0.5, 0.25])


class Pool:
    """Evaluates when the next outcome is asked for, of the tasks in flight a random one."""

    def __init__(self, capacity=1, seed=0):
        self.capacity = capacity
        self.rng = np.random.default_rng(seed)
        self.tasks, self.submitted, self.evaluated, self.closed = [], [], [], False

    def submit(self, key, call, x):
        self.submitted.append(key)
        self.tasks.append((key, call, x))

    def next(self):
        key, call, x = self.tasks.pop(int(self.rng.integers(min(self.capacity, len(self.tasks)))))
        self.evaluated.append(key)
        return key, call(x)

    def close(self):
        self.closed = True


def constant(value=0.0, **outcome):
    return lambda x: Outcome(value, **outcome)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.scb2o"


@pytest.fixture
def journal_of(path):
    """The journal beside `path`, as it is read from its file."""

    def factory(generation="a"):
        journal = Journal(path)
        journal.open(generation)
        opened.append(journal)
        return journal

    opened = []
    yield factory
    for journal in opened:
        journal.close()


def recorded(journal, *outcomes):
    """Evaluate through a journal, one after the other."""
    pool = JournaledPool(Pool(), journal)
    for i, outcome in enumerate(outcomes):
        pool.submit((i, "L"), lambda x, outcome=outcome: outcome, POINT)
        pool.next()


def file_of(journal):
    return Path(journal.path)


# -- lines -----------------------------------------------------------------------------------------------------------

EQUAL = {
    "float": 0.1,
    "small": 5e-324,
    "infinite": -math.inf,
    "integer": 3,
    "large integer": 2**80,
    "boolean": True,
    "None": None,
    "pair": (0.1, -2.5),
    "pair as list": [0.1, None],
    "text": "no number é\n",
    "float64": np.float64(0.1),
    "pair of float64": (np.float64(0.1), np.float64(3)),
    "float32": np.float32(0.1),
    "int": np.int64(2**53 + 1),
    "complex": np.complex128(1j),
    "array of one": np.array([0.1]),
    "array of no axis": np.array(0.1),
    "integer array": np.array([[3]], dtype=np.int8),
    "pair of arrays": (np.array([0.1]), np.array([2.0, 3.0])),
    "batch": np.linspace(0, 1, 50),
}


@pytest.mark.parametrize("value", EQUAL.values(), ids=EQUAL)
def test_value_comes_back_equal(journal_of, value):
    recorded(journal_of(), Outcome(value))
    back = journal_of().records[0].outcome.value
    assert type(back) is type(value) or isinstance(value, np.float64)
    pairs = zip(back, value, strict=True) if isinstance(value, (tuple, list)) else [(back, value)]
    for a, b in pairs:
        assert np.array_equal(a, b)
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def test_nan_comes_back(journal_of):
    recorded(journal_of(), Outcome(math.nan), Outcome((np.float64("nan"), 1.0)))
    first, second = (record.outcome.value for record in journal_of().records)
    assert math.isnan(first)
    assert math.isnan(second[0])
    assert second[1] == 1.0


class Number:
    def __array__(self, dtype=None, copy=None):
        return np.asarray(0.1, dtype=dtype)


class OwnFloat(float):
    pass


@pytest.mark.parametrize(
    "value", [Number(), OwnFloat(0.1), np.array([0.1, None], dtype=object), np.ma.masked_array([0.1])], ids=type
)
def test_value_of_unknown_type_comes_back_as_floats(journal_of, value):
    recorded(journal_of(), Outcome(value))
    back = journal_of().records[0].outcome.value
    np.testing.assert_array_equal(back, np.asarray(value, dtype=float))
    assert np.asarray(back).dtype == float


@pytest.mark.parametrize("value", [object(), {1: 2}, 1j, 10**5000, [object()], lambda: 0, {"a": object()}], ids=type)
def test_what_is_no_number_comes_back_as_something_that_is_none(journal_of, value):
    recorded(journal_of(), Outcome(value))
    back = journal_of().records[0].outcome.value
    with pytest.raises((TypeError, ValueError)):
        np.asarray(back, dtype=float)


def test_failure_comes_back_without_its_exception(journal_of):
    recorded(journal_of(), Outcome(None, "exception", "Traceback: é \ud800\n", ValueError("x"), 1.5))
    assert journal_of().records[0].outcome == Outcome(None, "exception", "Traceback: é \ud800\n", None, 1.5)


def test_of_a_long_message_the_end_is_kept(journal_of):
    recorded(journal_of(), Outcome(failure="exception", message="a" * 5000 + "b" * 1999))
    assert journal_of().records[0].outcome.message == "a" + "b" * 1999


def test_key_comes_back_with_plain_numbers(journal_of):
    pool = JournaledPool(Pool(), journal_of())
    pool.submit((np.int64(7), "LG"), constant(), POINT)
    pool.next()
    (record,) = journal_of().records
    assert record.key == (7, "LG")
    assert type(record.key[0]) is int


def test_record_is_one_line_that_can_be_read(journal_of):
    journal = journal_of("abc")
    recorded(journal, Outcome((0.1, 2.0), seconds=0.5))
    header, line = file_of(journal).read_text().splitlines()
    assert json.loads(header[9:]) == {"journal": 1, "generation": "abc"}
    assert int(line[:8], 16) == zlib.crc32(line[9:].encode())
    assert json.loads(line[9:]) == {
        "number": 0,
        "kind": "L",
        "point": json.loads(line[9:])["point"],
        "value": {"tuple": [0.1, 2.0]},
        "failure": None,
        "message": "",
        "seconds": 0.5,
        "capacity": 1,
    }


def test_record_is_in_the_file_when_next_returns(journal_of):
    journal = journal_of()
    for n in range(5):
        recorded(journal, Outcome(1.0))
        assert len(file_of(journal).read_bytes().splitlines()) == n + 2


def test_failed_write_leaves_no_torn_line(journal_of, monkeypatch):
    journal = journal_of()
    recorded(journal, Outcome(1.0))
    write = os.write

    def fill_up(descriptor, data):
        if len(data) < 60:
            raise OSError("the disk is full")
        return write(descriptor, data[:50])

    with monkeypatch.context() as patch:
        patch.setattr("sklearn_scb2o.optimize.journal.os.write", fill_up)
        with pytest.raises(OSError, match="the disk is full"):
            recorded(journal, Outcome(2.0))
    recorded(journal, Outcome(3.0))
    assert [record.outcome.value for record in journal_of().records] == [1.0, 3.0]


# -- files -----------------------------------------------------------------------------------------------------------


def test_new_journal_is_empty(journal_of):
    assert not journal_of().records
    assert not journal_of().records


def test_journal_of_another_generation_is_ignored_and_begins_anew(journal_of):
    recorded(journal_of("a"), Outcome(1.0))
    assert not journal_of("b").records
    assert not journal_of("a").records


def test_corrupt_journal_of_another_generation_is_ignored(journal_of):
    journal = journal_of("a")
    recorded(journal, Outcome(1.0), Outcome(2.0))
    lines = file_of(journal).read_bytes().split(b"\n")
    file_of(journal).write_bytes(b"\n".join([lines[0], b"?", *lines[2:]]))
    assert not journal_of("b").records


@pytest.mark.parametrize("left", [-1, -2, -50])
def test_torn_last_line_is_dropped_and_the_journal_goes_on(journal_of, left):
    journal = journal_of()
    recorded(journal, Outcome(1.0), Outcome(2.0))
    journal.close()
    file_of(journal).write_bytes(file_of(journal).read_bytes()[:left])
    journal = journal_of()
    assert [record.outcome.value for record in journal.records] == [1.0]
    journal.records.clear()
    recorded(journal, Outcome(3.0))
    assert [record.outcome.value for record in journal_of().records] == [1.0, 3.0]


def test_last_line_of_zeros_is_dropped(journal_of):
    journal = journal_of()
    recorded(journal, Outcome(1.0))
    with file_of(journal).open("ab") as file:
        file.write(bytes(100))
    assert [record.outcome.value for record in journal_of().records] == [1.0]


@pytest.mark.parametrize("line", [0, 1, 2])
def test_corrupt_line_is_named(journal_of, line):
    journal = journal_of()
    recorded(journal, Outcome(1.0), Outcome(2.0), Outcome(3.0))
    lines = file_of(journal).read_bytes().split(b"\n")
    lines[line] = lines[line].replace(b'"', b"'", 1)
    file_of(journal).write_bytes(b"\n".join(lines))
    with pytest.raises(
        CheckpointError, match=rf"journal is corrupt: in line {line + 1}, its checksum is wrong. Remove"
    ):
        journal_of()


def signed(text):
    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize(
    "data",
    [
        b"text",
        b"text\n",
        signed(b"{}"),
        signed(b"[]"),
        signed(b"{"),
        signed(b'{"journal":"1","generation":"a"}'),
        signed(b'{"journal":1,"generation":"a"}') + signed(b"{}"),
        signed(b'{"journal":1,"generation":"a"}') + signed(b'{"dropped":"x"}'),
    ],
)
def test_other_file_is_no_journal(path, journal_of, data):
    path.with_name(path.name + ".journal").write_bytes(data)
    with pytest.raises(CheckpointError, match="is corrupt"):
        journal_of()


def test_newer_version_names_both_and_says_to_upgrade(path, journal_of):
    path.with_name(path.name + ".journal").write_bytes(signed(b'{"journal":3,"new":0}'))
    with pytest.raises(CheckpointError, match=r"journal has version 3 .* up to version 1: upgrade sklearn_scb2o"):
        journal_of()


def fuzz(path, n):
    rng = np.random.default_rng(20240229)
    journal = Journal(path)
    journal.open("a")
    recorded(journal, *(Outcome(v) for v in (0.1, None, (1.0, 2.0), np.ones(1), "text", math.inf)))
    journal.close()
    data, file = file_of(journal).read_bytes(), file_of(journal)
    journal.open("a")
    kept = [repr(record) for record in journal.records]
    n_read = 0
    for _ in range(n):
        damaged = damage(data, rng)
        if damaged not in data and set(damaged.split(b"\n")) <= set(data.split(b"\n")):
            continue  # lines are repeated or lost as a whole, which a journal does not notice
        file.write_bytes(damaged)
        try:
            journal.open("a")
        except CheckpointError:
            continue
        read = [repr(record) for record in journal.records]
        assert read == kept[: len(read)]
        n_read += len(read) > 0
    journal.close()
    assert n_read > n / 20


def test_damaged_journals_are_errors_or_right_as_far_as_they_go(path):
    fuzz(path, 300)


@pytest.mark.slow
def test_many_damaged_journals_are_errors_or_right_as_far_as_they_go(path):
    fuzz(path, 3_000)


# -- pools -----------------------------------------------------------------------------------------------------------


def test_records_come_in_their_order_once_submitted(journal_of):
    recorded(journal_of(), *(Outcome(float(i)) for i in range(4)))
    inner = Pool()
    with JournaledPool(inner, journal_of()) as pool:
        for i in (3, 1, 0, 2):
            pool.submit((i, "L"), constant(9.0), POINT)
        assert [pool.next() for _ in range(4)] == [((i, "L"), Outcome(float(i))) for i in range(4)]
        assert inner.submitted == []
    assert inner.closed


def test_tasks_that_are_not_on_record_wait_until_it_is_used_up(journal_of):
    recorded(journal_of(), Outcome(0.0), Outcome(1.0))
    inner = Pool()
    pool = JournaledPool(inner, journal_of())
    for key in [(5, "L"), (1, "L"), (4, "G"), (0, "L"), (3, "L")]:
        pool.submit(key, constant(9.0), POINT)
    pool.next()
    assert inner.submitted == []
    pool.next()
    assert inner.submitted == [(5, "L"), (4, "G"), (3, "L")]
    pool.submit((6, "L"), constant(9.0), POINT)
    assert [pool.next()[0] for _ in range(4)] == [(5, "L"), (4, "G"), (3, "L"), (6, "L")]
    assert [record.key[0] for record in journal_of().records] == [0, 1, 5, 4, 3, 6]


def test_recorded_task_is_not_evaluated_again(journal_of):
    recorded(journal_of(), Outcome(1.0))
    inner = Pool()
    pool = JournaledPool(inner, journal_of())
    pool.submit((0, "L"), constant(9.0), POINT)
    pool.next()
    assert len(journal_of().records) == 1
    assert inner.evaluated == []


class Square:
    def __init__(self, n):
        self.left = n

    def __call__(self, x):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return x @ x, np.array([x[0]])


def test_serial_pool_is_journaled(journal_of):
    points = np.random.default_rng(0).random((10, 3))
    answers = []
    for n in (4, 6):
        with JournaledPool(make_pool(1, asynchronous=False), journal_of()) as pool:
            call = Call(Square(n))
            for i, x in enumerate(points):
                pool.submit((i, "LG"), call, x)
            with contextlib.suppress(KeyboardInterrupt):
                answers = [pool.next()[1].value for _ in points]
    assert answers == [(x @ x, np.array([x[0]])) for x in points]
    assert len(journal_of().records) == 10


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True])
def test_pools_of_processes_are_journaled(journal_of, asynchronous):
    points = np.random.default_rng(0).random((10, 3))
    runs = []
    for _ in range(2):
        with JournaledPool(make_pool(2, asynchronous=asynchronous), journal_of()) as pool:
            assert pool.capacity == 2
            for i, x in enumerate(points):
                pool.submit((i, "L"), Call(np.linalg.norm), x)
            runs.append([pool.next() for _ in points])
    assert runs[0] == runs[1]
    assert {key[0]: outcome.value for key, outcome in runs[1]} == dict(enumerate(map(np.linalg.norm, points)))


def test_capacity_is_that_of_the_pool(journal_of):
    assert JournaledPool(Pool(capacity=7), journal_of()).capacity == 7


def test_error_of_the_pool_passes_and_nothing_is_recorded(journal_of):
    def interrupt(x):
        raise KeyboardInterrupt

    pool = JournaledPool(Pool(), journal_of())
    pool.submit((0, "L"), interrupt, POINT)
    with pytest.raises(KeyboardInterrupt):
        pool.next()
    assert not journal_of().records


def test_outcomes_that_are_not_to_be_kept_are_not_recorded(journal_of):
    pool = JournaledPool(Pool(), journal_of(), keeps=lambda key, outcome: outcome.failure is None)
    for i, failure in enumerate([None, "exception", None]):
        pool.submit((i, "L"), constant(failure=failure), POINT)
        assert pool.next()[1].failure == failure
    assert [record.key[0] for record in journal_of().records] == [0, 2]


@pytest.mark.parametrize("how", ["later or not at all", "with another point"])
def test_run_that_diverges_drops_the_rest_with_one_warning(journal_of, how):
    recorded(journal_of(), *(Outcome(float(i)) for i in range(3)))
    inner = Pool()
    pool = JournaledPool(inner, journal_of())
    pool.submit((0, "L"), constant(9.0), POINT)
    pool.next()
    others = [(2, "L"), (1, "G"), *([(1, "L")] if how == "with another point" else [])]
    for key in others:
        pool.submit(key, constant(9.0), np.nextafter(POINT, 1))
    with pytest.warns(SCB2OWarning, match=f"evaluation 1 of L, .* was submitted {how}; .* of 2 evaluations") as caught:
        answers = [pool.next() for _ in others]
    assert len(caught) == 1
    assert answers == [(key, Outcome(9.0)) for key in others]
    assert inner.submitted == others
    assert [(record.key, record.outcome.value) for record in journal_of().records] == [
        ((0, "L"), 0.0),
        *((key, 9.0) for key in others),
    ]


def test_records_dropped_twice_stay_dropped(journal_of):
    recorded(journal_of(), Outcome(0.0), Outcome(1.0))
    for _ in range(2):
        pool = JournaledPool(Pool(), journal_of())
        pool.submit((5, "L"), constant(2.0), POINT + np.random.default_rng(_).random())
        with pytest.warns(SCB2OWarning, match="diverged"):
            pool.next()
    assert [record.key for record in journal_of().records] == [(5, "L")]


def asynchronous(pool, n, trace):
    """A loop in which each point depends on all that was told before, and on its order."""
    told, number = 0.0, 0
    while len(trace) < n:
        while number - len(trace) < pool.capacity:
            pool.submit((number, "LG"), lambda x: Outcome(math.sin(x[0])), np.array([told + number]))
            number += 1
        key, outcome = pool.next()
        told = 0.9 * told + outcome.value
        trace.append((key, told))


class Crash(Exception):
    pass


class Crashing(Pool):
    """Fails instead of the n-th evaluation."""

    def __init__(self, n, **options):
        super().__init__(**options)
        self.n = n

    def next(self):
        if len(self.evaluated) == self.n:
            raise Crash
        return super().next()


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_asynchronous_loop_goes_the_same_way_again(journal_of, path, capacity):
    for crash in range(0, 40, 3):
        file_of(journal_of()).unlink()
        first, second = [], []
        with pytest.raises(Crash):
            asynchronous(JournaledPool(Crashing(crash, capacity=capacity), journal_of()), 40, first)
        inner = Pool(capacity=capacity, seed=1)
        asynchronous(JournaledPool(inner, journal_of()), 40, second)
        assert second[:crash] == first
        assert len(inner.evaluated) == 40 - crash


class Growing(Crashing):
    """Has one more worker after every third evaluation."""

    @property
    def capacity(self):
        return self.first + len(self.evaluated) // 3

    @capacity.setter
    def capacity(self, value):
        self.first = value


def test_asynchronous_loop_on_a_cluster_that_grows_goes_the_same_way_again(journal_of):
    first, second = [], []
    with pytest.raises(Crash):
        asynchronous(JournaledPool(Growing(20), journal_of()), 40, first)
    inner = Pool(capacity=3)
    asynchronous(JournaledPool(inner, journal_of()), 40, second)
    assert second[:20] == first
    assert len(inner.evaluated) == 20


def test_records_without_a_capacity_are_given_back(journal_of):
    recorded(journal_of(), Outcome(0.0))
    path = file_of(journal_of())
    head, line = path.read_text().splitlines(keepends=True)
    values = json.loads(line[9:])
    del values["capacity"]
    text = json.dumps(values, separators=(",", ":"))
    path.write_text(head + f"{zlib.crc32(text.encode('ascii')):08x} {text}\n")
    pool = JournaledPool(Pool(capacity=5), journal_of())
    assert pool.capacity == 5
    pool.submit((0, "L"), constant(9.0), POINT)
    assert pool.next() == ((0, "L"), Outcome(0.0))


def test_asynchronous_loop_survives_many_crashes(journal_of):
    evaluated, lengths = [], []
    for seed in range(30):
        inner, trace = Crashing(2, capacity=3, seed=seed), []
        with contextlib.suppress(Crash):
            asynchronous(JournaledPool(inner, journal_of()), 40, trace)
        evaluated += inner.evaluated
        lengths.append(len(trace))
    assert lengths == [min(2 * (i + 1), 40) for i in range(30)]
    assert len(evaluated) == len(set(evaluated)) == 40


# -- checkpoints -----------------------------------------------------------------------------------------------------


def run(optimizer, checkpoint, pool, n_iter):
    """The loop of minimize."""
    if checkpoint.contents is None:
        checkpoint.write(optimizer, counts={"told": 0})
    else:
        checkpoint.restore(optimizer)
    N = optimizer.n_particles
    with JournaledPool(pool, checkpoint.journal) as journaled:
        while optimizer.n_iter < n_iter:
            X, first = optimizer.ask(), optimizer.n_iter * N
            L, G = (np.full(N, np.nan) for _ in range(2))
            for target, kind in ((L, "L"), (G, "G")):
                rows = range(N) if kind == "L" else np.flatnonzero(optimizer.needs_upper(L))
                for i in rows:
                    journaled.submit((first + int(i), kind), CALLS[kind], X[i])
                for _ in rows:
                    key, outcome = journaled.next()
                    target[key[0] - first] = outcome.value
            optimizer.tell(L, G)
            if checkpoint.is_due(optimizer.n_iter):
                checkpoint.write(optimizer, counts={"told": optimizer.n_iter})


def uninterrupted(optimizer, n_iter, path):
    """The same without a crash."""
    run(optimizer, Checkpoint(path.with_name("other")), Pool(), optimizer.n_iter + n_iter)
    path.with_name("other").unlink()


CALLS = {"L": lambda x: Outcome(float(values(x)[0])), "G": lambda x: Outcome(float(values(x)[1]))}


@pytest.mark.parametrize("every", [1, 3, 100])
@pytest.mark.parametrize("capacity", [1, 4])
def test_run_that_crashes_again_and_again_is_the_uninterrupted_run(make, path, every, capacity):
    evaluated = []
    for crash in range(1000):
        # a seed of its own for each attempt: the state comes from the file
        opt = make(random_state=5 + crash)
        pool = Crashing(23, capacity=capacity, seed=crash)
        try:
            run(opt, Checkpoint(path, every), pool, 10)
        except Crash:
            evaluated += pool.evaluated
            continue
        evaluated += pool.evaluated
        break
    assert crash > 5
    plain = make(random_state=5)
    uninterrupted(plain, 10, path)
    assert_equal_results(opt, plain)
    assert len(evaluated) == len(set(evaluated))
    assert read_checkpoint(path)["counts"] == {"told": 10 - 10 % every}


def test_checkpoint_is_due_every_so_many_iterations(make, path):
    checkpoint, opt = Checkpoint(path, every=3), make()
    due = []
    checkpoint.write(opt)
    for _ in range(7):
        advance(opt, 1)
        due.append(checkpoint.is_due(opt.n_iter))
        if due[-1]:
            checkpoint.write(opt)
    assert due == [False, False, True, False, False, True, False]
    resumed = Checkpoint(path, every=3)
    resumed.restore(make())
    assert not resumed.is_due(8)
    assert resumed.is_due(9)


@pytest.mark.parametrize("every", [0, -1, 1.5, None])
def test_every_must_be_a_count(path, every):
    with pytest.raises(ValueError, match="checkpoint_every"):
        Checkpoint(path, every)


def test_contents_are_those_of_the_file(make, path):
    assert Checkpoint(path).contents is None
    Checkpoint(path).write(make(), counts={"failed": 2}, more=np.ones(2))
    contents = Checkpoint(path).contents
    assert contents["counts"] == {"failed": 2}
    assert {"generation", "optimizer", "parameters", "not_stored", "more"} <= contents.keys()


def test_file_is_an_optimizer_that_loads(make, path):
    opt = make()
    advance(opt, 2)
    Checkpoint(path).write(opt)
    assert same(advance(SCB2OOptimizer.load(path), 2), advance(opt, 2))


def test_file_that_an_optimizer_saved_is_resumed(make, path):
    opt, other = make(), make(random_state=9)
    advance(opt, 2)
    opt.save(path)
    run(other, Checkpoint(path), Pool(), 4)
    uninterrupted(opt, 2, path)
    assert_equal_results(opt, other)


def test_crash_between_checkpoint_and_journal_loses_nothing(make, path, monkeypatch):
    opt, checkpoint = make(), Checkpoint(path)
    checkpoint.write(opt)
    recorded(checkpoint.journal, Outcome(1.0), Outcome(2.0))

    def crash(*args):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.journal, "restart", crash)
        with pytest.raises(Crash):
            checkpoint.write(opt, unsettled={(1, "L")})
    checkpoint.journal.close()
    assert [record.outcome.value for record in Checkpoint(path).journal.records] == [2.0]


def test_unsettled_evaluations_stay_on_record(make, path):
    opt, checkpoint = make(), Checkpoint(path)
    checkpoint.write(opt)
    recorded(checkpoint.journal, *(Outcome(float(i)) for i in range(4)))
    checkpoint.write(opt, unsettled=[(2, "L"), (1, "L"), (7, "G")])
    pool = JournaledPool(Pool(), checkpoint.journal)
    pool.submit((7, "G"), constant(7.0), POINT)
    pool.next()
    checkpoint.write(opt, unsettled=[(2, "L"), (7, "G")])
    pool.submit((8, "G"), constant(8.0), POINT)
    pool.next()
    pool.close()
    for _ in range(2):
        assert [record.outcome.value for record in Checkpoint(path).journal.records] == [2.0, 7.0, 8.0]


def test_what_was_dropped_of_unsettled_evaluations_stays_dropped(make, path):
    opt, checkpoint = make(), Checkpoint(path)
    checkpoint.write(opt)
    recorded(checkpoint.journal, Outcome(1.0), Outcome(2.0))
    checkpoint.write(opt, unsettled=[(0, "L"), (1, "L")])
    checkpoint.journal.close()
    pool = JournaledPool(Pool(), Checkpoint(path).journal)
    pool.submit((0, "L"), constant(9.0), POINT)
    pool.next()
    pool.submit((5, "L"), constant(5.0), POINT)
    with pytest.warns(SCB2OWarning, match="diverged"):
        pool.next()
    pool.close()
    assert [record.outcome.value for record in Checkpoint(path).journal.records] == [1.0, 5.0]


def test_checkpoint_in_the_middle_of_a_record_keeps_the_rest(make, path):
    opt, checkpoint = make(), Checkpoint(path)
    checkpoint.write(opt)
    recorded(checkpoint.journal, *(Outcome(float(i)) for i in range(4)))
    checkpoint.journal.close()
    resumed = Checkpoint(path)
    pool = JournaledPool(Pool(), resumed.journal)
    for i in range(4):
        pool.submit((i, "L"), constant(9.0), POINT)
    pool.next()
    resumed.write(opt)
    again = Checkpoint(path)
    assert [record.outcome.value for record in again.journal.records] == [1.0, 2.0, 3.0]
    assert [pool.next()[1].value for _ in range(3)] == [1.0, 2.0, 3.0]


def test_leftovers_of_killed_writers_are_removed(make, path):
    names = [f"{path.name}{end}" for end in (".0123456789abcdef.tmp", ".journal.0123456789abcdef.tmp")]
    others = [f"{path.name}.tmp", "other.0123456789abcdef.tmp"]
    for name in names + others:
        (path.parent / name).touch()
    Checkpoint(path)
    assert sorted(os.listdir(path.parent)) == sorted(others)


def test_corrupt_checkpoint_is_an_error_and_stays(make, path):
    Checkpoint(path).write(make())
    path.write_bytes(path.read_bytes()[:-1])
    kept = path.read_bytes()
    with pytest.raises(CheckpointError, match="truncated"):
        Checkpoint(path)
    assert path.read_bytes() == kept


@pytest.mark.parametrize(
    "other",
    [
        {"bounds": [(-3, 3), (-3, 4)]},
        {"bounds": [(-3, 3)] * 3},
        {"n_particles": 21},
        {"alpha": 3.0},
        {"selection": "hard"},
        {"dtype": "float32"},
        {"sigma": lambda opt: 1.0},
        {"x0": [0.0, 0.0]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_optimizer_with_other_parameters_is_refused_and_stays(make, path, other):
    opt = make()
    advance(opt, 2)
    Checkpoint(path).write(opt)
    resumed, same_parameters = make(**other), make(**other)
    with pytest.raises(ValueError, match=f"belongs to a run with other parameters: .*{next(iter(other))}="):
        Checkpoint(path).restore(resumed)
    assert same([resumed.ask()], [same_parameters.ask()])


def test_limits_seed_and_schedules_may_be_others(make, path):
    opt = make(max_iter=5, alpha=lambda opt: 1.0)
    advance(opt, 2)
    Checkpoint(path).write(opt)
    other = make(max_iter=7, tol=0.0, random_state=7, alpha=lambda opt: 1.0)
    Checkpoint(path).restore(other)
    assert same(advance(opt, 2), advance(other, 2))


KILLS = """
import os, signal, sys, time
import numpy as np
sys.path.insert(0, sys.argv[2])
from optimize_cases import values
from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.optimize.checkpoint import Checkpoint
from test_journal import CALLS, Pool, run

path, log = sys.argv[1], os.open(sys.argv[1] + ".log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

class Logging(Pool):
    def next(self):
        os.write(log, b"%d%s\\n" % (self.tasks[0][0][0], self.tasks[0][0][1].encode()))
        time.sleep(4e-4)  # a run takes longer than the first ten are let live
        return super().next()

def go_on():
    opt = SCB2OOptimizer([(-3, 3)] * 2, n_particles=20)
    run(opt, Checkpoint(path, 2), Logging(), 60)
    return opt

SCB2OOptimizer([(-3, 3)] * 2, n_particles=20, random_state=0).save(path)
rng = np.random.default_rng(0)
kills = 0
while True:
    pid = os.fork()
    if pid == 0:
        go_on()
        os._exit(0)
    time.sleep(rng.uniform(0.0, 0.05) * (1 + kills / 10))
    os.kill(pid, signal.SIGKILL)
    if os.waitpid(pid, 0)[1] == 0:
        break
    kills += 1
print(kills)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX only")
def test_process_killed_at_any_moment_repeats_at_most_what_was_in_flight(make, path):
    command = [sys.executable, "-c", KILLS, path, Path(__file__).parent]
    kills = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert kills >= 10
    plain = make()
    uninterrupted(plain, 60, path)
    assert_equal_results(SCB2OOptimizer.load(path), plain)
    evaluated = path.with_name(path.name + ".log").read_text().split()
    assert len(evaluated) - len(set(evaluated)) <= kills
    assert not [name for name in os.listdir(path.parent) if name.endswith(".tmp")]
