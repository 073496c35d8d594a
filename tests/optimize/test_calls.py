import math
import pickle
import threading
from functools import partial

import numpy as np
import pytest
from worker_cases import divides_by_zero, exits, power, raises_strange, spoils_its_argument, total

from sklearn_scb2o.optimize.calls import Call, Outcome

POINT = np.arange(4.0)


def sent(thing):
    return pickle.loads(pickle.dumps(thing))


def test_returns_what_the_function_returns():
    outcome = Call(power, (2,))(POINT)
    assert (outcome.value, outcome.failure, outcome.message, outcome.error) == (36.0, None, "", None)
    assert outcome.seconds >= 0


@pytest.mark.parametrize("value", [None, np.nan, (1.0, 2.0), "text"])
def test_any_value_is_an_answer_and_is_not_tried_again(value):
    calls = []
    outcome = Call(lambda x: calls.append(x) or value, retries=3)(POINT)
    assert outcome.value is value
    assert outcome.failure is None
    assert len(calls) == 1


@pytest.mark.parametrize("prepare", [lambda x: x, lambda x: np.repeat(x, 2)[::2], lambda x: x[::-1][::-1]])
def test_the_function_gets_an_array_of_its_own(prepare):
    x = prepare(POINT.copy())
    x.flags.writeable = False
    seen = []

    def simulator(own):
        seen.append(own)
        return spoils_its_argument(own)

    assert Call(simulator)(x).value == 6.0
    assert seen[0].flags.c_contiguous
    assert x.tolist() == [0, 1, 2, 3]


def test_each_attempt_gets_an_array_of_its_own():
    sums = []

    def simulator(x):
        sums.append(spoils_its_argument(x))
        raise ValueError

    Call(simulator, retries=2)(POINT)
    assert sums == [6.0] * 3


def test_an_exception_is_an_outcome_with_the_traceback_of_the_function_alone():
    outcome = Call(divides_by_zero)(POINT)
    assert outcome.failure == "exception"
    assert type(outcome.error) is ZeroDivisionError
    assert outcome.message.count("File") == 1
    assert "in divides_by_zero" in outcome.message
    assert "return 1 / 0" in outcome.message


@pytest.mark.parametrize("timeout", [None, 60.0], ids=["here", "in a process of its own"])
def test_a_function_that_watches_the_time_itself_may_say_so(timeout):
    def simulator(x):
        raise TimeoutError("no answer of the server")

    outcome = Call(simulator, timeout=timeout)(POINT)
    assert outcome.failure == "timeout"
    assert "no answer of the server" in outcome.message


def test_system_exit_is_an_exception_of_the_function():
    outcome = Call(exits)(POINT)
    assert outcome.failure == "exception"
    assert "no licence" in outcome.message


def test_keyboard_interrupt_is_not_caught():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Call(interrupted, retries=2)(POINT)


def test_retries_are_further_attempts_until_one_succeeds():
    left = [OSError, OSError]

    def unreliable(x):
        if left:
            raise left.pop()
        return 1.0

    assert Call(unreliable, retries=5)(POINT).value == 1.0
    assert not left
    left = [OSError] * 9
    assert Call(unreliable, retries=5)(POINT).failure == "exception"
    assert len(left) == 3


@pytest.mark.parametrize(
    "option",
    [{"retries": -1}, {"retries": 1.5}, {"timeout": 0}, {"timeout": -1}, {"timeout": np.nan}, {"timeout": "1 s"}],
    ids=str,
)
def test_bad_options_are_refused_by_name(option):
    name, value = next(iter(option.items()))
    with pytest.raises(ValueError, match=f"{name}={value!r} must be"):
        Call(total, **option)


class Model:
    def __init__(self, factor):
        self.factor = factor

    def simulate(self, x):
        return self.factor * float(x.sum())

    __call__ = simulate


def a_closure():
    factor = 2
    return lambda x: factor * float(x.sum())


@pytest.mark.parametrize(
    "function",
    [a_closure(), Model(2).simulate, Model(2), partial(Model.simulate, Model(2))],
    ids=["closure", "bound method", "object", "partial"],
)
def test_any_function_can_be_sent_by_plain_pickle(function):
    assert sent(Call(function))(POINT).value == 12.0
    assert sent(sent(Call(function)))(POINT).value == 12.0


def test_options_and_arguments_are_sent():
    call = sent(Call(power, (3,), retries=4, timeout=math.inf))
    assert call.retries == 4
    assert call.timeout == math.inf
    assert sent(Call(power, (3,)))(POINT).value == 216.0


class Counting:
    """Counts how often it has been pickled, and how often called."""

    pickled = called = 0

    def __reduce__(self):
        self.pickled += 1
        return Counting, ()

    def __call__(self, x):
        self.called += 1
        return self.called


def test_a_function_is_pickled_once_and_loaded_once():
    simulator = Counting()
    call = Call(simulator)
    assert [sent(call)(POINT).value for _ in range(3)] == [1, 2, 3]
    assert simulator.pickled == 1


def test_large_arrays_travel_beside_the_function_without_a_copy():
    data = np.ones((500, 1000))
    call = Call(lambda x: float(data[0, 0] + x[0]))
    _, pickled, buffers, *_ = call.__reduce__()[1]
    assert len(pickled) < 10_000
    assert [np.shares_memory(buffer, data) for buffer in buffers] == [True]
    assert sent(call)(POINT).value == 1.0


def test_arrays_that_the_function_holds_can_be_written_to_where_it_is_sent():
    scratch = {"small": np.zeros(10), "large": np.zeros(500_000)}

    def simulator(x):
        for array in scratch.values():
            array += 1
        return sum(float(array[0]) for array in scratch.values())

    assert sent(Call(simulator))(POINT).value == 2.0
    assert scratch["large"][0] == 0


def test_a_function_that_cannot_be_sent_is_refused_with_ways_out():
    lock = threading.Lock()

    def locked(x):
        with lock:
            return 1.0

    call = Call(locked)
    assert call(POINT).value == 1.0
    with pytest.raises(
        ValueError, match=r"locked \(or its args\) cannot be sent to another process.*threading"
    ) as error:
        call.check()
    assert "lock" in str(error.value)
    with pytest.raises(ValueError, match="cannot be sent"):
        Call(locked, timeout=1)(POINT)


def fails_to_load():
    raise ModuleNotFoundError("No module named 'simulator'")


class OnlyHere:
    def __reduce__(self):
        return fails_to_load, ()

    def __call__(self, x):
        return 1.0


def test_a_function_that_cannot_be_loaded_in_the_worker_is_a_failed_evaluation():
    outcome = sent(Call(OnlyHere()))(POINT)
    assert outcome.failure == "exception"
    assert type(outcome.error) is ModuleNotFoundError
    assert "No module named 'simulator'" in outcome.message


def test_an_outcome_comes_back_as_it_was():
    outcome = Outcome((1.0, np.float64(2.0)), None, "", None, 0.5)
    assert sent(outcome) == outcome


def test_the_exception_comes_back_with_its_notes_also_where_its_class_is_local():
    class Local(Exception):
        pass

    def simulator(x):
        error = Local("text")
        error.add_note("a note")
        raise error

    outcome = sent(Call(simulator)(POINT))
    assert type(outcome.error) is Local
    assert outcome.error.args == ("text",)
    assert outcome.error.__notes__ == ["a note"]


def test_an_exception_that_cannot_be_sent_leaves_its_traceback():
    outcome = sent(Call(raises_strange)(POINT))
    assert (outcome.failure, outcome.error) == ("exception", None)
    assert "Strange: 1 and 2" in outcome.message


def test_a_value_that_cannot_be_sent_is_a_failed_evaluation():
    outcome = sent(Call(lambda x: (i for i in range(3)))(POINT))
    assert (outcome.value, outcome.failure) == (None, "exception")
    assert "returned a generator, which cannot be sent" in outcome.message


def test_a_value_that_cannot_be_read_is_a_failed_evaluation():
    outcome = sent(Call(lambda x: OnlyHere())(POINT))
    assert (outcome.value, outcome.failure) == (None, "exception")
    assert "returned what cannot be read" in outcome.message


def test_isolated_is_the_same_call_in_a_process_of_its_own():
    call = Call(power, (2,), retries=3)
    assert call.timeout is None
    assert (call.isolated().timeout, call.isolated().retries) == (math.inf, 3)
    assert call.isolated()(POINT).value == 36.0
    limited = Call(power, (2,), timeout=5)
    assert limited.isolated() is limited
