"""The problem file: TOML, read and checked."""

from __future__ import annotations

import os
import shlex
import shutil
import string
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..optimize import SCB2OOptimizer
from .problem import KEEP, PLACEHOLDERS, WRITTEN, Problem, Program, Variable
from .tables import (
    COMMAND,
    COUNT,
    COUNT_OR_ZERO,
    FLAG,
    INSIDE,
    INTEGER,
    NAME,
    NUMBER,
    SECONDS,
    STRINGS,
    TABLES,
    TEXT,
    TEXTS,
    WORKERS,
    Table,
    one_of,
)

#: Parameters of the optimizer that a file can hold.
OPTIMIZER = (
    "n_particles", "selection", "selector", "alpha", "beta", "tau", "xi", "lam", "sigma", "dt", "noise", "noise_cap",
    "noise_floor", "batch_size", "boundary", "lower_tol", "lower_max", "upper_max", "tol", "stagnation",
    "max_failed_batches",
)  # fmt: skip
#: Keys of [run] that are arguments of `minimize`.
RUN = {
    "workers": WORKERS,
    "asynchronous": FLAG,
    "max_evals": COUNT,
    "max_iter": COUNT,
    "max_time": SECONDS,
    "retries": COUNT_OR_ZERO,
    "on_error": one_of("fail", "raise"),
    "track_consensus": FLAG,
}
#: Keys that each table accepts; "" is the file itself.
ACCEPTED = {
    "": ("variables", "program", "output", "run", "optimizer"),
    "variables": ("name", "low", "high", "log", "integer", "start"),
    "program": ("command", "files", "links", "environment", "timeout", "keep", "directory"),
    "output": ("file", "lower", "upper"),
    "run": (*RUN, "seed", "checkpoint"),
    "optimizer": OPTIMIZER,
}


def read_problem(path: str | os.PathLike[str]) -> Problem:
    """Read a problem file.

    Parameters
    ----------
    path : str or path-like
        A TOML file; relative paths in it are relative to its folder.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If the file is not TOML, or for a key that is unknown, missing, or has a value that is not accepted.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import sys, tempfile
    >>> from pathlib import Path
    >>> from sklearn_scb2o.command_line import read_problem
    >>> text = f'''
    ... variables = [{{name = "x", low = 0.1, high = 10.0, log = true}}, {{name = "n", low = 1, high = 9}}]
    ... program.command = ['{sys.executable}', "-m", "json.tool", "{{parameters}}"]
    ... output = {{lower = "x", upper = "n"}}
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "beam.toml").write_text(text)
    ...     problem = read_problem(f"{folder}/beam.toml")
    >>> problem.name, problem.bounds[1]
    ('beam', (1.0, 9.0))
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error
    table = Table(path, "", values, ACCEPTED[""])
    variables = _variables(table)
    program = _program(table, [v.name for v in variables])
    run, checkpoint = _run(table)
    return Problem(path, checkpoint, variables, program, run, _optimizer(table, variables))


def _part(table: Table, name: str) -> Table:
    return Table(table.path, f"[{name}] ", table.values.get(name, {}), ACCEPTED[name])


def _variables(table: Table) -> tuple[Variable, ...]:
    variables: dict[str, Variable] = {}
    for number, values in enumerate(table.need("variables", TABLES), 1):
        row = Table(table.path, f"[[variables]] number {number}: ", values, ACCEPTED["variables"])
        name = row.need("name", NAME)
        if name in variables:
            raise row.error("name", "is the name of another variable, too; names must differ")
        row.label = f"[[variables]] {name}: "
        variables[name] = _variable(row, name)
    given = [v.name for v in variables.values() if v.start is not None]
    if given and len(given) < len(variables):
        raise ValueError(
            f"{table.path}: [[variables]] start is given for {', '.join(given)} only; give it for all or for none"
        )
    return tuple(variables.values())


def _variable(row: Table, name: str) -> Variable:
    log, integer = row.take("log", FLAG, False), row.take("integer", FLAG, False)
    kind, number = (INTEGER, int) if integer else (NUMBER, float)
    low, high, start = number(row.need("low", kind)), number(row.need("high", kind)), row.take("start", kind)
    if low > high:
        raise row.error("low", f"must be at most high = {high!r}")
    if log and low <= 0:
        raise row.error("low", "must be positive where log = true")
    if start is not None and not low <= start <= high:
        raise row.error("start", f"must lie between low = {low!r} and high = {high!r}")
    return Variable(name, low, high, log, integer, start)


def _program(table: Table, names: list[str]) -> Program:
    rows, output = _part(table, "program"), _part(table, "output")
    environment = rows.take("environment", STRINGS, {})
    files, links = _paths(rows)
    keep = rows.take("keep", one_of(*KEEP), "none")
    # what is kept lies where it is found
    directory = rows.take("directory", TEXT, None if keep == "none" else f"{table.path.stem}.evaluations")
    return Program(
        command=_command(rows, names, environment),
        files=files,
        links=links,
        environment=environment,
        timeout=rows.take("timeout", SECONDS),
        keep=keep,
        directory=None if directory is None else _absolute(table, directory),
        file=output.take("file", INSIDE),
        lower=output.need("lower", TEXT),
        upper=output.need("upper", TEXT),
    )


def _command(rows: Table, names: list[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The command as a list, its placeholders checked, the program found."""
    command = rows.need("command", COMMAND)
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
        parsed = [list(string.Formatter().parse(word)) for word in words]
    except ValueError as error:
        raise rows.error("command", f"cannot be read: {error}; braces are written {{{{ and }}}}") from None
    if not words or not words[0]:
        raise rows.error("command", "has no program")
    used = set()
    for _, name, form, conversion in (part for parts in parsed for part in parts):
        if name is None:
            continue
        if name not in (*names, *PLACEHOLDERS) or form or conversion:
            given = f"{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"
            accepted = ", ".join(f"{{{n}}}" for n in (*names, *PLACEHOLDERS))
            raise rows.error(
                "command",
                f"has the placeholder {{{given}}}, which is unknown; accepted are {accepted}, and {{{{ and }}}} for "
                "braces",
            )
        used.add(name)
    unused = [name for name in names if name not in used]
    if unused and "parameters" not in used:
        raise rows.error(
            "command",
            f"does not pass {', '.join(unused)}; pass each variable as {{{unused[0]}}}, or the JSON file with all of "
            "them as {parameters}",
        )
    return _find(rows, words[0], environment), *words[1:]


def _find(rows: Table, word: str, environment: Mapping[str, str]) -> str:
    """The absolute path of the program: with a slash relative to the folder of the file, else one on PATH."""
    if os.path.dirname(word):
        path = str(_absolute(rows, word))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        raise rows.error("command", f"needs the program {path}, which is missing or not executable")
    found = shutil.which(word, path=environment.get("PATH"))
    if found is None:
        raise rows.error(
            "command", f'needs the program {word}, which is not on PATH; one beside the file is written "./{word}"'
        )
    return os.path.abspath(found)


def _paths(rows: Table) -> list[tuple[Path, ...]]:
    """Files to be copied and to be linked, which must exist and have names of their own."""
    taken, lists = list(WRITTEN), []
    for key in ("files", "links"):
        paths = tuple(_absolute(rows, name) for name in rows.take(key, TEXTS, []))
        for path in paths:
            if not path.exists():
                raise rows.error(key, f"needs {path}, which is missing")
            if path.name in taken:
                raise rows.error(key, f"brings {path.name} into a directory that has already {', '.join(taken)}")
            taken.append(path.name)
        lists.append(paths)
    return lists


def _run(table: Table) -> tuple[dict[str, Any], Path]:
    """Arguments of `minimize`, and the checkpoint."""
    rows = _part(table, "run")
    run = {key: rows.take(key, kind) for key, kind in RUN.items() if key in rows.values}
    asynchronous = run.get("asynchronous", False)
    if asynchronous and run.get("track_consensus"):
        raise rows.error("track_consensus", "must be false where asynchronous = true")
    run = {"on_error": "fail", "track_consensus": not asynchronous, **run}
    run["random_state"] = rows.take("seed", COUNT_OR_ZERO, 0)
    return run, _absolute(table, rows.take("checkpoint", TEXT, f"{table.path.stem}.scb2o"))


def _optimizer(table: Table, variables: tuple[Variable, ...]) -> dict[str, Any]:
    """Parameters of the optimizer, which has accepted them."""
    # where a whole batch fails it is the program, and more of them are no help
    optimizer = {"max_failed_batches": 1, **_part(table, "optimizer").values}
    start = [v.coordinate(v.start) for v in variables if v.start is not None]
    if start:
        optimizer["x0"] = start
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come again in the run
            SCB2OOptimizer([v.bounds for v in variables], **optimizer)
    except ValueError as error:
        raise ValueError(f"{table.path}: [optimizer] {error}") from error
    return optimizer


def _absolute(table: Table, path: str) -> Path:
    """A path that the file names, relative to its folder."""
    return Path(os.path.abspath(table.path.parent / Path(path).expanduser()))
