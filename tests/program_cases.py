"""Problem files and programs for the tests of the command line."""

import json
import sys

PYTHON = [sys.executable, "-I", "-S"]  # starts fast

#: L and G of a circle from two arguments; what is to go wrong is said by the file "mode", if there is one.
CIRCLE = """
import json, os, sys, time
x, y = float(sys.argv[1]), float(sys.argv[2])
mode = open("mode").read() if os.path.exists("mode") else ""
if mode == "fails" or (mode == "fails right" and x > 1):
    print("no licence", file=sys.stderr)
    sys.exit(3)
if mode == "is slow":
    time.sleep(0.02)
print("started")
print(json.dumps({"L": (x * x + y * y - 1) ** 2, "G": {"total": (x - 2) ** 2 + (y - 1) ** 2}}))
"""
XY = [{"name": "x", "low": -3.0, "high": 3.0}, {"name": "y", "low": -3.0, "high": 3.0}]


def write_problem(folder, name="problem", **tables):
    """A problem file with these tables, others as for the circle; a value of None leaves a key out."""
    values = {
        "variables": XY,
        "program": {"command": [*PYTHON, "circle.py", "{x}", "{y}"], "links": ["circle.py"]},
        "output": {"lower": "L", "upper": "G.total"},
        "run": {"max_evals": 30},
        "optimizer": {"n_particles": 8},
    }
    for table, change in tables.items():
        if isinstance(change, dict) and isinstance(values.get(table), dict):
            change = {k: v for k, v in {**values[table], **change}.items() if v is not None}
        values[table] = change
    (folder / "circle.py").write_text(CIRCLE)
    path = folder / f"{name}.toml"
    path.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in values.items()))
    return path


def _toml(value):
    """A value as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
