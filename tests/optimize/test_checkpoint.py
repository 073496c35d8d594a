import hashlib
import io
import json
import math
import os
import pickle
import stat
import struct
import subprocess
import sys
import warnings

import array_api_strict as strict
import numpy as np
import pytest
from fuzz_cases import damage
from optimize_cases import BOX, CUTS, advance, assert_equal_results, same, values

from sklearn_scb2o import CheckpointError, SCB2OOptimizer
from sklearn_scb2o.optimize import storage
from sklearn_scb2o.optimize.checkpoint import read_checkpoint, write_checkpoint
from sklearn_scb2o.particles import SELECTORS, Selector


def identical(a, b):
    """Whether two nested values have the same types and values, arrays to the bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(identical(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return repr(a) == repr(b)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.scb2o"


def through_file(contents, path):
    write_checkpoint(path, contents)
    return read_checkpoint(path)


VALUES = {
    "numbers": [0, -1, 0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan],
    "big integers": [2**64, -(2**200), 3**2000],
    "others": [None, True, False, "", "é\n\0 \ud800", "NaN"],
    "nested": {"a": [], "b": {}, "": [[1, [2.0]], {"c": {"d": [None]}}]},
    "tuples": [(), (1, 2.5), ([1], (2,))],
    "names of our own": [{"array": 0}, {"dict": {}}, {"scalar": 1, "x": 2}, {"tuple": []}],
    "NumPy numbers": [np.float32(0.1), np.int8(-1), np.uint64(2**64 - 1), np.complex128(1 - 2j)],
    "NumPy scalars": [np.bool_(True), np.str_("a"), np.bytes_(b"a"), np.datetime64("2020-01-01T00:00:00.5")],
    "dates": np.array(["NaT", 5], dtype="timedelta64[ms]"),
}

# quiet and signalling, with a payload
NANS = np.array([0x7FF8000000000001, 0xFFF8000000ABCDEF, 0x7FF0000000000001, 0xFFF000000000BEEF], dtype=np.uint64)
ARRAYS = {
    "float": np.linspace(0, 1, 7),
    "NaN": NANS.view(np.float64),
    "float32 NaN": np.array([0x7FC00001, 0x7F800001], dtype=np.uint32).view(np.float32),
    "infinite": np.array([np.inf, -np.inf, -0.0]),
    "no axis": np.array(3.5),
    "empty": np.zeros((0, 3)),
    "empty and deep": np.zeros((2, 0, 3), dtype=np.float32),
    "three axes": np.arange(24.0).reshape(2, 3, 4),
    "Fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20)[::-3],
    "integers": np.array([-(2**63), 2**63 - 1]),
    "small": np.arange(5, dtype=np.uint8),
    "booleans": np.array([[True], [False]]),
    "complex": np.array([1 + 2j], dtype=np.complex64),
    "long": np.array([1, 3], dtype=np.longdouble) / 3,
    "half": np.array([0.1], dtype=np.float16),
    "text": np.array(["a", "longer"]),
    "bytes": np.array([b"a", b"bc"]),
    "records": np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values_come_back_as_they_were(path, value):
    assert identical(through_file({"v": value}, path), {"v": value})


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_come_back_to_the_bit(path, array):
    back = through_file({"v": [array, {"w": array[..., :1] if array.ndim else array}]}, path)["v"]
    assert identical(back[0], array)
    assert back[0].flags.writeable
    assert not np.shares_memory(back[0], back[1]["w"])


@pytest.mark.parametrize("order", "<>")
def test_arrays_come_back_in_native_byte_order(path, order):
    array = NANS.astype(NANS.dtype.newbyteorder(order)).view(f"{order}f8")
    back = through_file({"v": array}, path)["v"]
    assert back.dtype.isnative
    assert identical(back, NANS.view(np.float64))


def test_many_values_and_deep_ones(path):
    deep = []
    for _ in range(100):
        deep = [deep]
    contents = {"deep": deep, **{f"a{i}": np.full(3, i) for i in range(500)}}
    assert identical(through_file(contents, path), contents)


class Odd:
    pass


REFUSED = {
    "object": Odd(),
    "set": {1},
    "bytes": b"a",
    "complex": 1j,
    "callable": len,
    "key": {1: 2},
    "object array": np.array([None, Odd()], dtype=object),
    "object inside a record": np.zeros(1, dtype=[("a", "O")]),
    "masked array": np.ma.masked_array([1.0, 2.0], [True, False]),
    "strings of any length": np.array(["a"], dtype=np.dtypes.StringDType()),
    "endless integer": 10**5000,
}


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_stored_is_refused_and_the_file_stays(path, value):
    write_checkpoint(path, {"v": 1})
    with pytest.raises(CheckpointError, match=r"contents"):
        write_checkpoint(path, {"v": 1, "inner": [0, value]})
    assert read_checkpoint(path) == {"v": 1}
    assert os.listdir(path.parent) == [path.name]


def test_refusal_names_the_place(path):
    with pytest.raises(CheckpointError, match=r"contents\['a'\]\[1\] is of type Odd; a checkpoint can hold"):
        write_checkpoint(path, {"a": [0, Odd()]})


@pytest.mark.parametrize("array", [np.array([Odd()]), np.array([1, None])])
def test_object_arrays_are_refused(path, array):
    with pytest.raises(CheckpointError, match="dtype object"):
        write_checkpoint(path, {"a": array})


# -- files -----------------------------------------------------------------------------------------------------------


def fail(*args):
    raise OSError("the disk is full")


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("exists", [True, False])
def test_failed_write_leaves_the_previous_file_and_nothing_else(path, monkeypatch, call, exists):
    if exists:
        write_checkpoint(path, {"v": 1})
    monkeypatch.setattr(storage.os, call, fail)
    with pytest.raises(OSError, match="the disk is full"):
        write_checkpoint(path, {"v": 2})
    assert os.listdir(path.parent) == [path.name] * exists
    assert not exists or read_checkpoint(path) == {"v": 1}


def test_interrupted_write_leaves_the_previous_file_and_nothing_else(path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    write_checkpoint(path, {"v": 1})
    monkeypatch.setattr(storage.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(path, {"v": 2})
    assert os.listdir(path.parent) == [path.name]
    assert read_checkpoint(path) == {"v": 1}


def test_file_and_folder_are_synchronised_with_the_disk(path, monkeypatch):
    synchronised = []
    fsync = os.fsync

    def record(descriptor):
        synchronised.append(stat.S_IFMT(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(storage.os, "fsync", record)
    write_checkpoint(path, {})
    assert synchronised == [stat.S_IFREG, stat.S_IFDIR][: 2 if os.name == "posix" else 1]


def test_link_stays_and_its_target_is_written(path, tmp_path):
    target = tmp_path / "elsewhere" / "file"
    target.parent.mkdir()
    path.symlink_to(target)
    write_checkpoint(path, {"v": 1})
    assert path.is_symlink()
    assert read_checkpoint(target) == {"v": 1}


def test_path_may_be_a_string(path):
    assert through_file({"v": 1}, str(path)) == {"v": 1}


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_checkpoint(tmp_path / "nowhere" / "file", {})


def test_missing_file_is_a_file_not_found_error(path):
    with pytest.raises(FileNotFoundError, match=path.name):
        read_checkpoint(path)


@pytest.mark.parametrize("data", [b"", b"\0", b"text\n" * 100, pickle.dumps({"a": 1}), b"PK\x03\x04" + bytes(100)])
def test_other_file_is_no_checkpoint(path, data):
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        read_checkpoint(path)


@pytest.mark.parametrize("length", [1, 8, 30, 52, 60, -1])
def test_truncated_file_is_said_to_be(path, length):
    write_checkpoint(path, {"a": np.arange(10)})
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=f"{path.name} is truncated"):
        read_checkpoint(path)


@pytest.mark.parametrize("place", [13, 20, 51, 52, 70, -1])
def test_corrupt_file_is_said_to_be(path, place):
    write_checkpoint(path, {"a": np.arange(10)})
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="is corrupt: its checksum is wrong" if place != 13 else "is truncated"):
        read_checkpoint(path)


def test_file_that_goes_on_is_corrupt(path):
    write_checkpoint(path, {})
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(CheckpointError, match="is corrupt"):
        read_checkpoint(path)


def signed(payload, version=1):
    """A checkpoint file of any payload with a right checksum."""
    prefix = struct.pack("<IQ", version, len(payload))
    return b"\x93SCB2O\r\n" + prefix + hashlib.sha256(prefix + payload).digest() + payload


def test_format_stays_as_it_is(path):
    array = io.BytesIO()
    np.save(array, np.arange(3.0))
    path.write_bytes(signed(b'{"dict":{"a":{"array":0},"b":[1,{"tuple":[NaN,{"scalar":0}]}]}}\n' + array.getvalue()))
    contents = read_checkpoint(path)
    assert identical(contents["a"], np.arange(3.0))
    assert contents["b"][0] == 1
    write_checkpoint(path, {"a": 1.5})
    assert path.read_bytes() == signed(b'{"dict":{"a":1.5}}\n')


def test_newer_version_names_both_and_says_to_upgrade(path):
    path.write_bytes(signed(b"something new", version=7))
    with pytest.raises(CheckpointError, match=r"has version 7 .* up to version 1: upgrade sklearn_scb2o"):
        read_checkpoint(path)


def array_of(header, data=b""):
    text = repr(header).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


ONE = {"descr": "<f8", "fortran_order": False, "shape": (1,)}
FORGED = {
    "no dictionary": b"[1]\n",
    "no JSON": b"{\n",
    "nothing": b"",
    "unknown kind": b'{"set":[1]}\n',
    "two kinds": b'{"dict":{},"tuple":[]}\n',
    "no such array": b'{"dict":{"a":{"array":0}}}\n',
    "index is no number": b'{"dict":{"a":{"array":[]}}}\n' + array_of(ONE, bytes(8)),
    "too deep": b"[" * 100_000 + b"\n",
    "array cut off": b'{"dict":{}}\n' + array_of({**ONE, "shape": (2,)}, bytes(8)),
    "array that goes on": b'{"dict":{}}\n' + array_of(ONE, bytes(9)),
    "array beyond memory": b'{"dict":{}}\n' + array_of({**ONE, "shape": (10**15,)}),
    "array beyond integers": b'{"dict":{}}\n' + array_of({**ONE, "shape": (10**30,)}),
    "negative shape": b'{"dict":{}}\n' + array_of({**ONE, "shape": (-1,)}),
    "no header": b'{"dict":{}}\n' + array_of("__import__('os')"),
    "unknown type": b'{"dict":{}}\n' + array_of({**ONE, "descr": "<x8"}),
    "archive": b'{"dict":{}}\nPK\x03\x04' + bytes(100),
}


@pytest.mark.parametrize("payload", FORGED.values(), ids=FORGED)
def test_forged_contents_are_refused(path, payload):
    path.write_bytes(signed(payload))
    with pytest.raises(CheckpointError, match="is refused"):
        read_checkpoint(path)


class Attack:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("descr", ["|O", [("a", "|O")]])
@pytest.mark.parametrize("read", [read_checkpoint, SCB2OOptimizer.load])
def test_pickled_object_with_a_right_checksum_is_not_run(path, tmp_path, descr, read):
    trap = tmp_path / "executed"
    data = pickle.dumps([Attack(trap)])
    header = {"descr": descr, "fortran_order": False, "shape": (1,)}
    path.write_bytes(signed(b'{"dict":{"a":{"array":0}}}\n' + array_of(header, data)))
    with pytest.raises(CheckpointError, match="Object arrays cannot be loaded"):
        read(path)
    assert not trap.exists()
    np.lib.format.read_array(io.BytesIO(array_of({**header, "descr": "|O"}, data)), allow_pickle=True)
    assert trap.exists()  # the trap works


def fuzz(path, n):
    rng = np.random.default_rng(20240229)
    opt = SCB2OOptimizer(BOX, n_particles=3, random_state=0)
    advance(opt, 2)
    opt.save(path)
    data = path.read_bytes()
    kept = read_checkpoint(path)
    for i in range(n):
        if i % 3:
            damaged = damage(data, rng)
        else:  # with a right checksum: what is read may be wrong, but nothing crashes
            damaged = signed(damage(data[52:], rng))
        path.write_bytes(damaged)
        try:
            contents = read_checkpoint(path)
        except CheckpointError:
            continue
        assert i % 3 == 0 or identical(contents, kept)


def test_damaged_files_are_errors_or_right(path):
    fuzz(path, 300)


@pytest.mark.slow
def test_many_damaged_files_are_errors_or_right(path):
    fuzz(path, 3_000)


KILLS = """
import os, signal, sys, time
import numpy as np
from sklearn_scb2o import SCB2OOptimizer

path = sys.argv[1]
opt = SCB2OOptimizer([(0, 1)] * 50, n_particles=200, random_state=0)
opt.save(path)
rng = np.random.default_rng(0)
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        while True:
            X = opt.ask()
            opt.tell(X[:, 0], X[:, 1])
            opt.save(path)
    time.sleep(rng.uniform(0.01, 0.05))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print(SCB2OOptimizer.load(path).n_iter)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX only")
def test_process_killed_while_it_saves_leaves_a_file_that_loads(path):
    done = subprocess.run([sys.executable, "-c", KILLS, path], capture_output=True, text=True, check=True)
    saved = [int(n) for n in done.stdout.split()]
    assert len(saved) == 10
    assert max(saved) > 0


# -- optimizers ------------------------------------------------------------------------------------------------------

KINDS = {
    "default": {},
    "float32": {"dtype": "float32"},
    "runs": {"n_runs": 3},
    "mini-batches": {"batch_size": 7},
    "runs in mini-batches": {"n_runs": 2, "batch_size": 7},
    "hard": {"selection": "hard"},
    "none": {"selection": "none"},
    "gumbel": {"selector": "gumbel"},
    "tolerance": {"lower_tol": 0.1, "stagnation": 50},
    "caps": {"lower_max": np.inf, "upper_max": 8, "noise_cap": 0.5, "noise_floor": 0.1},
    "tau": {"tau": 0.5, "alpha": np.float32(2.0), "beta": 0.3},
    "xi": {"xi": 10.0, "lam": 0.5, "sigma": 0.0, "dt": 1},
    "anisotropic": {"noise": "anisotropic", "boundary": "clip"},
    "periodic": {"noise": "isotropic", "boundary": "periodic"},
    "optimum": {"x_opt": [0.9, 0.4], "x_scale": [1.0, 300.0]},
    "limits": {"max_iter": 20, "max_evals": 500, "max_time": 1e6, "tol": 0.0, "max_failed_batches": 3},
    "start": {"x0": [0.1, 0.2]},
    "start without bounds": {"bounds": None, "x0": [[5, 2], [3, 4]]},
    "starts of each run": {"n_runs": 2, "x0": np.arange(12).reshape(2, 3, 2) / 8},
    "open bounds": {"bounds": [(None, 1), (0.1, np.inf)], "dtype": "float32"},
    "seeds of each run": {"n_runs": 2, "random_state": [3, np.random.SeedSequence(4)]},
    "strict": {"xp": strict},
    "strict runs": {"xp": "array_api_strict", "n_runs": 2, "batch_size": 7, "dtype": "float32"},
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def fail_all(opt):
    opt.ask()
    nothing = np.full((20,) if opt.n_runs == 1 else (opt.n_runs, 20), np.nan)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        opt.tell(nothing[..., : opt.batch_size], nothing[..., : opt.batch_size])
        opt.stop()  # other libraries than NumPy look at failures here
    assert "evaluations of iteration 1 failed" in str(caught[0].message)


def drift(opt):
    X = opt.ask()
    opt.tell(*values(X), drift=np.full(X.shape, 0.25))


each_cut = pytest.mark.parametrize("cut", [*CUTS.values(), fail_all, drift], ids=[*CUTS, "failed", "drift"])


@each_kind
@each_cut
def test_loaded_optimizer_continues_bit_for_bit(make, path, kind, cut):
    opt = make(**kind)
    cut(opt)
    opt.save(path)
    other, another = SCB2OOptimizer.load(path), SCB2OOptimizer.load(path)
    X = advance(opt, 5)
    assert same(X, advance(other, 5))
    assert same(X, advance(another, 5))
    assert_equal_results(opt, other)
    assert_equal_results(opt, another)
    assert opt.stop().keys() == other.stop().keys()
    assert identical(opt.arguments(), other.arguments())


BOXES = {
    "fixed coordinate": {"bounds": [(-3, 3), (0.3, 0.3)], "dtype": "float32"},
    "widest": {"bounds": [(-1.7e308, 1.7e308), (-1e308, 1.7e308)], "x0": [[1e307, 1e300], [-1.7e308, -1e308]]},
    "narrow": {"bounds": [(0, 5e-324), (1, np.nextafter(1, 2))]},
    "open": {"bounds": [(-np.inf, np.inf)] * 2, "x0": [1e300, -1e200]},
}


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_box_is_the_same(make, path, box):
    def f(X):
        return np.tanh(X[:, 0]), np.tanh(X[:, 1])

    opt = make(**box)
    advance(opt, 3, f)
    opt.save(path)
    assert same(advance(opt, 3, f), advance(SCB2OOptimizer.load(path), 3, f))


def test_optimizer_from_the_paper_continues(path):
    opt = SCB2OOptimizer.from_paper(BOX, random_state=0)
    advance(opt, 3)
    opt.save(path)
    assert same(advance(opt, 3), advance(SCB2OOptimizer.load(path), 3))


def test_optimizer_of_many_streams_continues(path):
    opt = SCB2OOptimizer([(-1, 1)] * 300, n_particles=300, random_state=0)
    assert len(opt.state_dict()["streams"][0]) > 1
    advance(opt, 2)
    opt.save(path)
    assert same(advance(opt, 2), advance(SCB2OOptimizer.load(path), 2))


def test_file_is_the_same_after_loading(make, path, tmp_path):
    opt = make()
    advance(opt, 3)
    opt.save(path)
    SCB2OOptimizer.load(path).save(tmp_path / "again")
    first, again = read_checkpoint(path), read_checkpoint(tmp_path / "again")
    assert first["optimizer"].pop("elapsed") <= again["optimizer"].pop("elapsed")
    assert identical(first, again)


def test_pending_batch_is_asked_again(make, path):
    opt = make()
    advance(opt, 3)
    X = opt.ask()
    opt.save(path)
    assert same([SCB2OOptimizer.load(path).ask()], [X])


def test_saving_does_not_change_the_run(make, path):
    opt, other = make(), make()
    for _ in range(3):
        opt.save(path)
        X = opt.ask()
        opt.save(path)
        opt.tell(*values(X))
        advance(other, 1)
    assert same([opt.ask()], [other.ask()])


def test_time_goes_on_where_it_was(make, path):
    opt = make(max_time=1000.0)
    opt.ask()
    opt.save(path)
    other = SCB2OOptimizer.load(path)
    before = other.elapsed
    assert 0 < before <= opt.elapsed
    other.ask()
    assert other.elapsed > before


def test_run_continues_on_another_array_library(make, path):
    opt = make()
    advance(opt, 3)
    opt.save(path)
    other = SCB2OOptimizer.load(path, xp=strict)
    assert isinstance(other.ask(), type(strict.zeros(1)))
    np.testing.assert_allclose(np.asarray(advance(other, 3)), advance(opt, 3), rtol=1e-9, atol=1e-9)


def test_limits_may_change(make, path):
    opt = make(max_iter=3)
    advance(opt, 3)
    opt.save(path)
    assert "max_iter" in SCB2OOptimizer.load(path).stop()
    assert not SCB2OOptimizer.load(path, max_iter=4).stop()


def halved(opt):
    return 0.5


OWN = Selector("logistic", *(getattr(SELECTORS["gumbel"], n) for n in ("log_psi", "psi_and_slope", "inverse")))


@pytest.mark.parametrize(
    "lost",
    [{"alpha": halved}, {"dt": halved, "beta": lambda opt: 0.2}, {"selector": OWN}],
    ids=["schedule", "two schedules", "selector"],
)
def test_parameters_that_are_not_stored_must_be_given_again(make, path, lost):
    opt = make(**lost)
    advance(opt, 2)
    opt.save(path)
    with pytest.raises(ValueError, match="give them again") as caught:
        SCB2OOptimizer.load(path)
    assert all(f"{name}=..." in str(caught.value) for name in lost)
    assert same(advance(opt, 3), advance(SCB2OOptimizer.load(path, **lost), 3))


def test_device_that_is_not_stored_must_be_given_again(make, path):
    device = strict.Device("CPU_DEVICE")
    opt = make(xp=strict, device=device)
    opt.save(path)
    with pytest.raises(ValueError, match=r"device=\.\.\."):
        SCB2OOptimizer.load(path)
    assert SCB2OOptimizer.load(path, device=device).ask().device == device


@pytest.mark.parametrize(
    "override", [{"n_particles": 21}, {"n_runs": 2}, {"batch_size": 10}, {"dtype": "float32"}], ids=str
)
def test_override_that_contradicts_the_state_is_refused(make, path, override):
    make().save(path)
    with pytest.raises(ValueError, match="the state has"):
        SCB2OOptimizer.load(path, **override)


@pytest.mark.parametrize("override", [{"bounds": BOX}, {"x0": [0, 0]}, {"x_scale": 1.0}, {"random_state": 1}], ids=str)
def test_override_of_what_the_state_depends_on_is_refused(make, path, override):
    make().save(path)
    with pytest.raises(ValueError, match=f"{next(iter(override))} cannot be given to load"):
        SCB2OOptimizer.load(path, **override)


def test_override_is_checked_as_by_the_constructor(make, path):
    make().save(path)
    with pytest.raises(ValueError, match="alpha=-1"):
        SCB2OOptimizer.load(path, alpha=-1)
    with pytest.raises(TypeError, match="alfa"):
        SCB2OOptimizer.load(path, alfa=1)


def test_checkpoint_of_something_else_is_refused(path):
    write_checkpoint(path, {"a": 1})
    with pytest.raises(CheckpointError, match="not of an optimizer"):
        SCB2OOptimizer.load(path)


def test_subclass_loads_as_itself(path):
    class Own(SCB2OOptimizer):
        pass

    Own(BOX).save(path)
    assert type(Own.load(path)) is Own


def test_file_holds_no_pickle(make, path):
    opt = make(n_runs=2)
    advance(opt, 2)
    opt.save(path)
    line, _, arrays = path.read_bytes()[52:].partition(b"\n")
    assert set(json.loads(line)["dict"]) == {"optimizer", "parameters", "not_stored"}
    file = io.BytesIO(arrays)
    while file.tell() < len(arrays):
        assert np.load(file, allow_pickle=False).dtype.kind in "fiub"
