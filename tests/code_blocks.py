"""Run the Python blocks of Markdown pages as they stand there: ``python tests/code_blocks.py README.md ...``.

The blocks of a page run in order, in one namespace. Comments at the left margin below a ``print`` are what it prints,
``...`` standing for anything. It needs the standard library alone, for environments with nothing but the package.
"""

import ast
import contextlib
import doctest
import io
import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def run_page(path: Path) -> dict:
    """Run a page; its namespace at the end, with the number of statements whose output was compared as "compared"."""
    text = path.read_text(encoding="utf-8")
    namespace = {"__name__": "__main__", "compared": 0}
    for match in BLOCK.finditer(text):
        first_line = text[: match.start(1)].count("\n")
        lines = match[1].splitlines()
        for statement in ast.parse(match[1]).body:
            stated = stated_output(lines[statement.end_lineno :]) if is_print(statement) else ""
            place = f"{path.name}, line {first_line + statement.lineno}"
            ast.increment_lineno(statement, first_line)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(ast.Module([statement], []), str(path), "exec"), namespace)
            if stated:
                found = printed.getvalue()
                if not doctest.OutputChecker().check_output(stated, found, doctest.ELLIPSIS):
                    raise AssertionError(f"{place} prints\n{found}where the page says\n{stated}")
                namespace["compared"] += 1
    return namespace


def is_print(statement: ast.stmt) -> bool:
    """Whether a statement is a call of print."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"


def stated_output(following: list[str]) -> str:
    """The comments that the lines begin with, as output."""
    stated = ""
    for line in following:
        if not line.startswith("#"):
            break
        stated += line[2:] + "\n"
    return stated


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"$ the Python blocks of {name}", flush=True)
        run_page(Path(name))
