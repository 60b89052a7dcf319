"""docs/multikueue-scenarios.md: every situation stands there once; every test it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "multikueue-scenarios.md").read_text()
FILES = dict(re.findall(r"^\| (\w+) \| (tests/\S+\.py) \|$", PAGE, re.MULTILINE))
ROWS = re.findall(r"^\| ([TG])-(\d+)(?: to [TG]-(\d+))? \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
NAME = re.compile(r"(\w+)::(\w+)")


def test_every_number_stands_there_once() -> None:
    numbers = [
        (letter, number)
        for letter, first, last, _, _ in ROWS
        for number in range(int(first), int(last or first) + 1)
    ]
    wanted = [("T", n) for n in range(1, 587)] + [("G", n) for n in range(1, 23)]
    assert numbers == wanted


def test_every_row_names_a_test_or_says_why_not() -> None:
    silent = [
        f"{letter}-{first}"
        for letter, first, _, _, covered in ROWS
        if not covered.startswith(("missing: ", "not applicable: ")) and not NAME.search(covered)
    ]
    assert silent == []


def test_every_test_that_is_named_exists() -> None:
    named = {match for *_, covered in ROWS for match in NAME.findall(covered)}
    unknown = sorted(
        f"{alias}::{name}"
        for alias, name in named
        if alias not in FILES or name not in _functions(FILES[alias])
    )
    assert unknown == []


def test_every_file_is_used() -> None:
    assert set(FILES) == {alias for *_, covered in ROWS for alias, _ in NAME.findall(covered)}


@cache
def _functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))
