"""Pages for people: their links lead somewhere, and the modules that they name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("changes", "config", "dispatchers", "docs", "e2e-kind", "multiqueue", "tests")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
)
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"`[^`\n]+`")
MODULE = re.compile(r"(?<![*\w])\w+\.py\b")
PAST = {ROOT / "docs" / "mutation.md"}
"""Pages with the names that modules had when something was measured."""


def find_anchors(page: Path) -> Iterator[str]:
    """Yield the anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = []
    for target, anchor in LINK.findall(CODE.sub("``", page.read_text())):
        other = page.parent / target if target else page
        if not other.exists() or (anchor and anchor not in find_anchors(other)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


def test_every_module_that_a_page_names_exists() -> None:
    modules = {
        path.name for folder in (*FOLDERS, "tools") for path in (ROOT / folder).rglob("*.py")
    }
    unknown = {
        f"{module} in {name_of(page)}"
        for page in PAGES
        if page not in PAST
        for module in MODULE.findall(page.read_text())
        if module not in modules
    }
    assert sorted(unknown) == []


def test_every_term_of_the_glossary_has_one_line() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    terms = [
        term.strip()
        for cell in re.findall(r"^\| ([^|]+?) \| [^|]+ \|$", text, re.MULTILINE)
        if cell not in {"term", "---"}
        for term in cell.split(",")
    ]
    assert sorted(terms) == sorted(set(terms))
    assert len(terms) > 80


def test_every_checker_and_target_that_the_guarantees_name_exists() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text()
    sources = "".join(path.read_text() for path in (ROOT / "tests/fleet/checkers").glob("*.py"))
    makefile = (ROOT / "Makefile").read_text()
    checkers = set(re.findall(r"`([A-Z][a-zA-Z]+)`", text))
    assert len(checkers) > 5
    assert [name for name in sorted(checkers) if f"class {name}(" not in sources] == []
    targets = re.findall(r"`make ([\w-]+)", text)
    assert [name for name in targets if f"\n{name}:" not in makefile] == []
