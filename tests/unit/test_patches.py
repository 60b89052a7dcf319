"""Tests change no constant of the product and import none of its private names.

They pass an argument instead. `tests/fleet/test_mutations.py` breaks the product on purpose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ON_PURPOSE = {TESTS / "fleet" / "test_mutations.py"}


def find_offences(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "multiqueue":
                for name in node.names:
                    if name.name.startswith("_") and not name.name.startswith("__"):
                        yield f"line {node.lineno}: imports {name.name}"
            case ast.Call(
                func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(value=str(name)), *_]
            ) if name.isupper():
                yield f"line {node.lineno}: changes {name}"


def test_tests_change_no_constant_and_import_no_private_name() -> None:
    found = {
        str(path.relative_to(TESTS)): offences
        for path in sorted(TESTS.rglob("*.py"))
        if path not in ON_PURPOSE and (offences := list(find_offences(path.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("from multiqueue.cli.find import _pick", ["line 1: imports _pick"]),
        ("monkeypatch.setattr(setup, 'FILE_SECONDS', 0.01)", ["line 1: changes FILE_SECONDS"]),
        ("from multiqueue import __version__\nmonkeypatch.setattr(sys, 'stdin', file)", []),
    ],
    ids=["a private name", "a constant", "neither"],
)
def test_the_scan_finds(source: str, want: list[str]) -> None:
    assert list(find_offences(source)) == want
