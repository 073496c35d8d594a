"""Configuration of the documentation: ``python -m sphinx -W --keep-going -b html docs docs/_build``."""

import inspect
import re
import sys
from importlib.resources import files
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

import sklearn_scb2o

sys.path.insert(0, str(Path(__file__).parent))  # for gallery_hooks

project = "sklearn_scb2o"
author = "The sklearn_scb2o developers"
copyright = author
release = version = sklearn_scb2o.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
nitpicky = True  # a name that is written as a link must be one
nitpick_ignore_regex = [("py:obj", r"(joblib|sklearn)\..+")]  # their sites are not asked
default_role = "autolink"  # `name` in a docstring is a link where it names something, and code elsewhere

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autosummary_context = {
    "package": "sklearn_scb2o",
    "shared": sklearn_scb2o.__all__,
    "modules": [name for name in sklearn_scb2o.__all__ if inspect.ismodule(getattr(sklearn_scb2o, name))],
}
autodoc_typehints = "none"  # types are in the docstrings
numpydoc_show_class_members = False

toc_object_entries_show_parents = "hide"
smartquotes = False  # the quotes of code stay as they are

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_scb2o"
html_math_renderer = "mathml"
html_static_path = ["_static", str(files("ziamath.fonts") / "STIXTwoMath-Regular.ttf")]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_favicon = "_static/icon.svg"
html_context = {"default_mode": "auto"}
# pages without pages below them
html_sidebars = {
    page: []
    for page in ("index", "getting_started", "theory", "benchmarks", "coming_from", "contributing", "changelog")
}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "nested_sections": False,
    "within_subsection_order": "gallery_hooks.Order",
    "parallel": 2,
    "reset_modules": ("matplotlib", "seaborn", "gallery_hooks.start_by_spawn"),
    "download_all_examples": False,
    "reference_url": {"sklearn_scb2o": None},
    "show_memory": False,
    "show_signature": False,
}


def _inline_math(self, node):
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _display_math(self, node):
    # formulas that an empty line separates stand below each other
    for formula in re.split(r"\n\s*\n", node.astext().strip()):
        if "&" in formula and r"\begin" not in formula:
            formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
        self.body.append(f'<div class="formula">{convert(formula, display="block")}</div>')
    raise nodes.SkipNode


def setup(app):
    """Formulas as MathML, which browsers show without a script."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
