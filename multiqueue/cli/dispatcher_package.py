"""Writes a package for a new dispatcher, with tests that pass."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

from multiqueue.cli.errors import UsageProblem
from multiqueue.dispatcher_host.registry import Dispatchers

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MOST_CHARACTERS = 50
LAYOUT = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "src/{module}/dispatcher.py": "dispatcher.py",
    "tests/test_dispatcher.py": "test_dispatcher.py",
}
"""The package's files, and the templates for them."""
EMPTY = ("src/{module}/__init__.py", "src/{module}/py.typed")


def write_package(name: str, folder: Path) -> list[Path]:
    """Write a package into a folder of its own.

    Args:
        name: The name of the dispatcher and of its package.
        folder: The folder in which the package's folder is made.

    Returns:
        The files, relative to the folder.

    Raises:
        UsageProblem: the name is invalid, or the folder exists already.
    """
    _check_form(name)
    target = folder / name
    if target.exists():
        raise UsageProblem(f"{target} exists already; choose another name, or remove it")
    if name in Dispatchers().names:
        raise UsageProblem(f'there is a dispatcher "{name}" already; choose another name')
    module = _module_of(name)
    values = {"name": name, "module": module, "klass": _class_of(name)}
    templates = files("multiqueue.cli") / "dispatcher_template"
    texts = {
        path.format(module=module): Template(
            (templates / f"{template}.in").read_text(encoding="utf-8")
        ).substitute(values)
        for path, template in LAYOUT.items()
    }
    texts |= {path.format(module=module): "" for path in EMPTY}
    for path, text in texts.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
    return [Path(name) / path for path in texts]


def _check_form(name: str) -> None:
    if not NAME.fullmatch(name) or len(name) > MOST_CHARACTERS:
        raise UsageProblem(
            f'"{name}" is no name for a dispatcher: lower-case letters, digits and "-", '
            f"beginning with a letter, at most {MOST_CHARACTERS} characters"
        )


def _module_of(name: str) -> str:
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or find_spec(module):
        raise UsageProblem(f'"{name}" is a name that Python has already; add a word to it')
    return module


def _class_of(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))
