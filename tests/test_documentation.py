"""What README, pages and docstrings say is so."""

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest
from code_blocks import BLOCK, run_page
from site_links import dead_links
from test_project import PUBLIC

ROOT = Path(__file__).parents[1]
FAST = ("README.md", "getting_started.md")
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in p.parts)]
SHOWN_BY_THEMSELVES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *ROOT.glob("examples/*/*.md"),
]
DEAD = ["../a.html#bottom", "picture.png", "../.."]
MODULES = [*PUBLIC, "sklearn_scb2o.theory"]

# examples are counted and run elsewhere; a type, an extended summary or "See also" is not always worth a line, and the
# paper's symbols keep their small letters
NOT_ASKED = {"ES01", "EX01", "PR04", "PR08", "RT03", "RT04", "SA01", "SA03", "SS05"}
NOT_ASKED_OF_METHODS = {"PR01", "RT01"}  # a line that has the shapes says it all


def public_names():
    """Each public class, function and method, with the checks that are not made."""
    for module in map(importlib.import_module, MODULES):
        for value in (getattr(module, name) for name in module.__all__):
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            path = f"{value.__module__}.{value.__qualname__}"
            yield path, NOT_ASKED
            for name, member in vars(value).items() if inspect.isclass(value) else ():
                if not name.startswith("_") and isinstance(member, (property, classmethod, FunctionType)):
                    yield f"{path}.{name}", NOT_ASKED | NOT_ASKED_OF_METHODS


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.name in FAST else pytest.mark.slow, id=page.stem)
        for page in PAGES
        if BLOCK.search(page.read_text(encoding="utf-8"))
    ],
)
def test_code_of_a_page_runs_in_order_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    if page.stem == "command_line":  # its problem file is that of the example
        if shutil.which("cc") is None:
            pytest.skip("no C compiler")
        shutil.copytree(ROOT / "examples" / "external_program", tmp_path, dirs_exist_ok=True)
        subprocess.run(["make", "-s"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_a_page_that_says_something_else_than_its_code_prints_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n```python\nx = 1\nprint(x)\n# 2\n```\n")
    with pytest.raises(AssertionError, match=r"page.md, line 5 prints\n1\n"):
        run_page(page)


@pytest.mark.parametrize("page", SHOWN_BY_THEMSELVES, ids=lambda page: page.name)
def test_links_of_a_page_that_is_read_in_the_repository_name_files(page):
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_links_of_the_site_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b/c.html#end">c</a><a href="https://x.org/y">y</a>')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text('<p id="end"><a href="../a.html#top"></a><a href="#end"></a>')
    assert dead_links(tmp_path) == []
    (tmp_path / "b" / "c.html").write_text('<a href="../a.html#bottom"></a><img src="picture.png"><a href="../.."></a>')
    assert dead_links(tmp_path) == ["a.html: b/c.html#end", *(f"b/c.html: {link}" for link in DEAD)]


def test_api_reference_has_every_public_module():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert {line.strip() for line in page.splitlines() if line.startswith("   sklearn_scb2o")} == set(MODULES)


@pytest.mark.slow
def test_docstrings_of_public_names_follow_numpydoc():
    validate = pytest.importorskip("numpydoc.validate").validate
    wrong = [
        f"{name}: {code} {message}"
        for name, not_asked in sorted(dict(public_names()).items())
        for code, message in validate(name)["errors"]
        if code not in not_asked
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_a_program_of_a_user_passes_mypy_strict(tmp_path):
    pytest.importorskip("mypy")
    shutil.copy(ROOT / "tests" / "typed_program.py", tmp_path)
    environment = {**os.environ, "MYPYPATH": ""}
    # what mypy knows of NumPy is that of the check of the package, if the options are the same
    options = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]
    command = [sys.executable, "-m", "mypy", *options, "typed_program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
