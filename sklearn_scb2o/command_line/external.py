"""An objective that starts a program and reads its answer."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from .problem import Problem, shown

#: Of what a program has written, the last characters are part of a message.
TAIL = 1000


class ProgramError(RuntimeError):
    """A program has ended with an error, or without an answer that can be read.

    Examples
    --------
    >>> import sys, tempfile
    >>> from pathlib import Path
    >>> from sklearn_scb2o.command_line import ExternalProgram, ProgramError, read_problem
    >>> text = f'''
    ... variables = [{{name = "x", low = 0.0, high = 1.0}}]
    ... program.command = ['{sys.executable}', "-c", "raise SystemExit('no licence')", "{{x}}"]
    ... output = {{lower = "L", upper = "G"}}
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "problem.toml").write_text(text)
    ...     try:
    ...         ExternalProgram(read_problem(f"{folder}/problem.toml"))([0.5])
    ...     except ProgramError as error:
    ...         print(error)
    the program ended with exit status 1
    standard error ends with:
    no licence
    """


class ExternalProgram:
    """L and G at a point by the program of a problem: each evaluation is a process in a directory of its own.

    As it only waits, threads are the right workers: ``joblib.parallel_config("threading")``. It can be pickled, for
    any other kind.

    Parameters
    ----------
    problem : Problem
        From `read_problem`.

    Attributes
    ----------
    last_failure : str
        What was wrong with the last evaluation that failed here.

    Raises
    ------
    ProgramError
        From a call: if the program ends with an exit status other than 0, or its answer cannot be read.
    TimeoutError
        From a call: if it takes longer than the time limit. The program and all that it has started are killed.

    Examples
    --------
    A program that prints the JSON file of its variables:

    >>> import sys, tempfile
    >>> from pathlib import Path
    >>> from sklearn_scb2o.command_line import ExternalProgram, read_problem
    >>> text = f'''
    ... variables = [{{name = "x", low = 0.0, high = 1.0}}, {{name = "n", low = 1, high = 9, integer = true}}]
    ... program.command = ['{sys.executable}', "-m", "json.tool", "{{parameters}}"]
    ... output = {{lower = "x", upper = "n"}}
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "problem.toml").write_text(text)
    ...     program = ExternalProgram(read_problem(f"{folder}/problem.toml"))
    ...     program([0.1, 6.7])
    (0.1, 7.0)
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.last_failure = ""
        self._running: set[subprocess.Popen[bytes]] = set()
        self._directories: set[Path] = set()  # of calls that have not returned
        self._stopped = False

    def __reduce__(self) -> tuple[Any, ...]:
        return ExternalProgram, (self.problem,)

    def __call__(self, x: Any) -> tuple[float, float]:
        """Evaluate at a point of the optimizer's coordinates."""
        if self._stopped:
            raise KeyboardInterrupt
        program, values = self.problem.program, self.problem.values(x)
        directory = self._new_directory()
        keep = program.keep == "all"
        try:
            answer = self._answer(directory, values)
            pair = _number(answer, program.lower, "lower"), _number(answer, program.upper, "upper")
            keep = keep or (program.keep == "failed" and not (pair[0] < math.inf and pair[1] == pair[1]))
        except Exception as error:
            keep = program.keep != "none"
            if keep:
                error.add_note(f"its directory: {directory}")
            self.last_failure = "\n".join([f"{shown(values)}: {error}", *getattr(error, "__notes__", ())])
            raise
        finally:
            if not keep:
                shutil.rmtree(directory, ignore_errors=True)
            self._directories.discard(directory)
        return pair

    def stop(self) -> None:
        """Kill what is running; these calls, and later ones, raise KeyboardInterrupt in their threads."""
        self._stopped = True
        for process in list(self._running):
            _kill(process)

    def close(self) -> None:
        """Stop, and remove the directories of calls whose threads may not live to do it."""
        self.stop()
        for directory in list(self._directories):
            if self.problem.program.keep != "all":
                shutil.rmtree(directory, ignore_errors=True)

    def _new_directory(self) -> Path:
        folder = self.problem.program.directory
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix=f"{self.problem.name}-", dir=folder))
        self._directories.add(directory)
        return directory

    def _answer(self, directory: Path, values: dict[str, float]) -> dict[str, Any]:
        """Run the program and read the JSON object that it has written."""
        program = self.problem.program
        parameters = directory / "parameters.json"
        parameters.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
        for path in program.files:
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, directory / path.name)
        for path in program.links:
            (directory / path.name).symlink_to(path, target_is_directory=path.is_dir())
        texts = {name: repr(value) for name, value in values.items()}
        texts |= {"parameters": str(parameters), "directory": str(directory)}
        command = [program.command[0], *(word.format_map(texts) for word in program.command[1:])]
        printed, complaints = directory / "stdout.txt", directory / "stderr.txt"
        with printed.open("wb") as out, complaints.open("wb") as err:
            ended = self._run(command, directory, out, err)
        if ended:
            raise ProgramError(f"the program {ended}{_tail('standard error', complaints)}")
        source = printed if program.file is None else directory / program.file
        where = "standard output" if program.file is None else program.file
        try:
            answer = _json_object(source.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise ProgramError(
                f"the program has written no {where}: {error.strerror}{_tail('standard error', complaints)}"
            ) from None
        if answer is None:
            raise ProgramError(
                f"there is no JSON object in {where}{_tail(where, source)}{_tail('standard error', complaints)}"
            )
        return answer

    def _run(self, command: list[str], directory: Path, out: Any, err: Any) -> str:
        """Run a command to its end; returns how it has ended where that is not with exit status 0."""
        program = self.problem.program
        timed_out = threading.Event()

        def time_is_up() -> None:
            timed_out.set()
            _kill(process)

        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **program.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,  # a group that can be killed as a whole, and that Ctrl-C does not reach
        )
        timer = threading.Timer(program.timeout or 0.0, time_is_up)
        timer.daemon = True
        self._running.add(process)
        try:
            if program.timeout is not None:
                timer.start()
            if self._stopped:
                raise KeyboardInterrupt
            process.wait()
        except BaseException:
            _kill(process)
            process.wait()
            raise
        finally:
            timer.cancel()
            self._running.discard(process)
        if self._stopped:
            raise KeyboardInterrupt
        if timed_out.is_set():
            raise TimeoutError(f"the program was not finished after timeout = {program.timeout:g} seconds, and killed")
        return _how_it_ended(process.returncode)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, with all that it has started where the system has groups of processes."""
    if process.returncode is not None:
        return
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit status {code}" if code else ""
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _tail(name: str, path: Path) -> str:
    """The end of a file, as part of a message."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        text = file.read().decode("utf-8", errors="replace").strip()
    if not text:
        return f"\n{name} is empty"
    return f"\n{name} ends with:\n{'...' if size > TAIL else ''}{text}"


def _json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, or else that its last such line is."""
    lines = (line for line in reversed(text.splitlines()) if line.lstrip().startswith("{"))
    for part in (text, *lines):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(part)
            if isinstance(value, dict):
                return value
    return None


def _number(answer: dict[str, Any], path: str, key: str) -> float:
    """The number at a dotted path; null, which says that the evaluation failed, is NaN."""
    value: Any = answer
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
            raise ProgramError(f'the answer has no {step!r} of {key} = "{path}"; there is {there or "nothing"}')
        value = value[step]
    if value is None:
        return math.nan
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ProgramError(f'the answer has {value!r:.80} at {key} = "{path}", which is no number')
    return float(value)
