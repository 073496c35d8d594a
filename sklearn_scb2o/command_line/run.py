"""``scb2o run`` and ``scb2o resume``: minimise with a program, from the start or from a checkpoint."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib

from ..optimize import minimize
from ..optimize.journal import Journal
from ..optimize.storage import locked
from .external import ExternalProgram, ProgramError
from .problem import Problem
from .report import read_found, to_text


def start(problem: Problem, restart: bool, progress: bool, overrides: dict[str, Any]) -> int:
    """Begin a run, where there is none.

    Parameters
    ----------
    problem : Problem
        From `read_problem`.
    restart : bool
        Whether one that was begun is forgotten.
    progress : bool
        Whether a progress bar is shown.
    overrides : dict
        Arguments of `minimize` instead of those of the file.

    Returns
    -------
    int
        Exit status.
    """
    if restart:
        with locked(problem.checkpoint):
            for path in (problem.checkpoint, _journal(problem)):
                path.unlink(missing_ok=True)
    elif problem.checkpoint.exists():
        raise ValueError(
            f"{problem.checkpoint} holds a run that was begun. {_how_to_go_on(problem)}; with --restart it is "
            "forgotten, and a new one begins"
        )
    return _minimize(problem, progress, overrides)


def resume(problem: Problem, progress: bool, overrides: dict[str, Any]) -> int:
    """Go on with a run; parameters as for `start`."""
    if not problem.checkpoint.exists():
        raise ValueError(
            f"{problem.checkpoint} does not exist, so there is nothing to resume: begin with 'scb2o run {problem.path}'"
        )
    return _minimize(problem, progress, overrides)


def _minimize(problem: Problem, progress: bool, overrides: dict[str, Any]) -> int:
    problem = replace(problem, run={**problem.run, **overrides})
    program = ExternalProgram(problem)
    with _stopped_by_signals(program) as received:
        try:
            # a thread waits for the program; Python's own work is small
            with joblib.parallel_config("threading"):
                result = minimize(
                    program,
                    bounds=problem.bounds,
                    checkpoint=problem.checkpoint,
                    checkpoint_every=1,
                    disp=progress,
                    **problem.run,
                    **problem.optimizer,
                )
        except KeyboardInterrupt:
            if not received:
                raise
        except (ProgramError, TimeoutError) as error:
            raise _ended(problem, 'With on_error = "raise", a failed evaluation ends the run', program) from error
        except RuntimeError as error:
            # a whole batch has failed, and it alone is in the journal: it is made again when the run goes on
            _journal(problem).unlink(missing_ok=True)
            raise _ended(problem, str(error), program) from error
        finally:
            program.close()
    if received:
        print(f"\nStopped. {_how_to_go_on(problem)}", file=sys.stderr)
        return 128 + received[0]
    if not progress:  # which ends with the message
        print(result.message)
    print(f"\n{to_text(problem, read_found(problem))}")
    return 0


@contextmanager
def _stopped_by_signals(program: ExternalProgram) -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM kill the programs that run and raise KeyboardInterrupt here; yields what has come.

    A second one ends the process at once.
    """
    received: list[int] = []

    def stop(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)
        program.stop()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _journal(problem: Problem) -> Path:
    return Path(Journal(problem.checkpoint).path)


def _ended(problem: Problem, why: str, program: ExternalProgram) -> RuntimeError:
    """What has ended a run, for the user of a program."""
    failure = f"\nThe last one that failed, at {program.last_failure}\n" if program.last_failure else " "
    return RuntimeError(f"{why}.{failure}{_how_to_go_on(problem)}")


def _how_to_go_on(problem: Problem) -> str:
    return f"Go on with: scb2o resume {shlex.quote(str(problem.path))}"
