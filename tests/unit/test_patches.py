"""Tests change no constant, and use no private name, of the product.

They pass an argument instead. Some tests of the simulated fleet break the product on purpose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}
STANDARD_LIBRARY = {"os._exit", "ssl._create_unverified_context"}
ON_PURPOSE = {TESTS / "fleet" / f"test_{name}.py" for name in ("mutations", "notices", "stopped")}


def find_offences(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "multiqueue":
                for name in node.names:
                    if is_private(name.name):
                        yield f"line {node.lineno}: imports {name.name}"
            case ast.Call(
                func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(value=str(name)), *_]
            ) if name.isupper() or is_private(name):
                yield f"line {node.lineno}: changes {name}"
            case ast.Attribute(value=owner, attr=name) if is_private(name):
                used = ast.unparse(node)
                if not is_own(owner) and used not in STANDARD_LIBRARY:
                    yield f"line {node.lineno}: uses {used}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE


def is_own(owner: ast.expr) -> bool:
    """Whether it is `self`, `cls` or `super()`: what a test's own class keeps to itself."""
    return ast.unparse(owner) in {"self", "cls", "super()"}


def test_tests_change_no_constant_and_use_no_private_name() -> None:
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
        ("monkeypatch.setattr(Heap, '_pushed', 1)", ["line 1: changes _pushed"]),
        ("assert heap._pushed == 1", ["line 1: uses heap._pushed"]),
        ("self._heap = super()._heap\nrow._replace(a=1)\nos._exit(1)", []),
        ("from multiqueue import __version__\nmonkeypatch.setattr(sys, 'stdin', file)", []),
    ],
    ids=[
        "a private name",
        "a constant",
        "a patched method",
        "a private attribute",
        "own names",
        "public names",
    ],
)
def test_the_scan_finds(source: str, want: list[str]) -> None:
    assert list(find_offences(source)) == want
