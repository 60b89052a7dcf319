"""The commands of the pages, run in their order against a demo; `page_commands` has the marks."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.integration.page_commands import PageBlock, PageShell, read_blocks
from tests.integration.page_folder import make_folder
from tests.integration.test_demo import served

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
KUBECTL = shutil.which("kubectl")
SPEED = "5"
PARTS = 2
"""Each with a demo of its own, so that two can run at the same time."""

pytestmark = [pytest.mark.programs, pytest.mark.timeout(360)]


def blocks() -> Iterator[tuple[str, PageBlock]]:
    for page in PAGES:
        for block in read_blocks(page.read_text()):
            yield page.relative_to(ROOT).as_posix(), block


def run_page(
    name: str, page: Sequence[PageBlock], folder: Path, environment: dict[str, str]
) -> Iterator[str]:
    """Run blocks of a page; yield what is wrong with it."""
    shell = PageShell(folder, environment)
    try:
        for block in page:
            for command in block.commands:
                problem = shell.run(command)
                if problem:
                    yield f"{name}:{block.line}: {command.text}\n{problem}"
    finally:
        shell.close()


@pytest.mark.parametrize("part", range(PARTS))
async def test_the_commands_of_the_pages_work(
    part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if KUBECTL is None:
        assert not os.environ.get("CI"), "kubectl is required on CI"
        pytest.skip("no kubectl in PATH")
    environment = make_folder(tmp_path)
    pages: dict[str, list[PageBlock]] = {}
    seen = []
    for name, block in blocks():
        if not block.reason and block.commands not in seen:  # many runbooks begin alike
            seen.append(block.commands)
            pages.setdefault(name, []).append(block)
    problems: list[str] = []
    begin = time.monotonic()
    async with served(tmp_path / ".demo", "--speed", SPEED, python=tmp_path / ".venv/bin/python"):
        for name, page in list(pages.items())[part::PARTS]:
            problems += run_page(name, page, tmp_path, environment)
    with capsys.disabled():
        told = summary() if part == 0 else ""
        sys.stdout.write(f"\n{told}\npart {part} in {time.monotonic() - begin:.0f} s\n")
    assert not problems, "\n".join(problems)


def summary() -> str:
    """Return how many blocks run, and how many do not for which reason."""
    reasons = Counter(block.reason for _, block in blocks())
    ran = reasons.pop("", 0)
    left = "".join(f"\n  {count} not: {reason}" for reason, count in reasons.most_common())
    return f"{ran} blocks of commands on {len(PAGES)} pages run{left}"
