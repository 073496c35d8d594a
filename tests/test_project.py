import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sklearn_scb2o"
# a package may import from those before it, and from itself
LAYERS = ("particles", "optimize", "model_selection")
ON_TOP = ("problems", "coupling", "theory", "baselines", "plotting", "reproduce", "command_line", "__main__")

PUBLIC = [
    "sklearn_scb2o",
    *(f"sklearn_scb2o.{name}" for name in (*LAYERS, "problems", "baselines", "plotting", "command_line")),
]


def imported_names(path):
    package = ("sklearn_scb2o", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_downwards_only(layer):
    above = LAYERS[LAYERS.index(layer) + 1 :]
    forbidden = {f"sklearn_scb2o.{name}" for name in (*above, *ON_TOP)}
    if layer != "model_selection":
        forbidden.add("sklearn")
    for path in (PACKAGE / layer).rglob("*.py"):
        for name in imported_names(path):
            assert not any(name == f or name.startswith(f + ".") for f in forbidden), f"{path.name} imports {name}"


def test_kernels_import_nothing_of_the_package_but_each_other():
    for path in (PACKAGE / "particles").rglob("*.py"):
        for name in imported_names(path):
            assert not name.startswith("sklearn_scb2o") or name.startswith("sklearn_scb2o.particles")


@pytest.mark.parametrize("name", PUBLIC)
def test_all_is_what_is_public(name):
    module = importlib.import_module(name)
    packages = {n for n in module.__all__ if inspect.ismodule(getattr(module, n))}
    public = {n for n, v in vars(module).items() if not (n.startswith("_") or inspect.ismodule(v))}
    assert set(module.__all__) == public | packages


def test_worker_processes_do_not_load_scikit_learn():
    code = "import sys, sklearn_scb2o.optimize.workers; sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", [*PUBLIC, "sklearn_scb2o.theory"])
def test_public_callables_have_documentation_and_an_example(name):
    module = importlib.import_module(name)
    for public in module.__all__:
        value = getattr(module, public)
        if callable(value) and not (isinstance(value, type) and issubclass(value, (Warning, tuple))):
            assert value.__doc__, f"{public} has no docstring"
            assert ">>>" in value.__doc__, f"{public} has no example"


def test_files_can_be_read_in_one_sitting():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 530, path.name


def test_no_global_numpy_random_state_in_the_package():
    for path in PACKAGE.rglob("*.py"):
        used = re.findall(r"np\.random\.(\w+)", path.read_text(encoding="utf-8"))
        assert set(used) <= {"Generator", "SFC64", "SeedSequence", "RandomState", "default_rng"}, path.name
