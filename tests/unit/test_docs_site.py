"""The pages of the documentation site: complete, with what they link to (``make docs``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.site.tree import ROOT, build_tree


def test_every_page_has_a_place_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = (path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    assert [page for page in sorted(pages) if f"{page}\n" not in navigation] == []


def test_pages_bring_what_they_link_to(tmp_path: Path) -> None:
    build_tree(tmp_path / "pages")
    assert (tmp_path / "pages/docs/preemption.md").exists()
    assert (tmp_path / "pages/multiqueue/engine/README.md").exists()
    assert not list((tmp_path / "pages").rglob("*.pyc"))


def write_pages(root: Path, **texts: str) -> None:
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "dispatchers/README.md", "docs/a.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "config" / "samples").mkdir(parents=True)
    (root / "config" / "samples" / "1-queue.yaml").write_text("kind: ClusterQueue")
    (root / "README.md").write_text(texts["readme"])


def test_a_folder_without_a_page_is_listed(tmp_path: Path) -> None:
    write_pages(tmp_path / "repo", readme="See [samples](config/samples).")
    build_tree(tmp_path / "pages", tmp_path / "repo")
    assert (tmp_path / "pages/README.md").read_text() == "See [samples](config/samples/README.md)."
    listed = (tmp_path / "pages/config/samples/README.md").read_text()
    assert listed == "# config/samples\n\n- [1-queue.yaml](1-queue.yaml)\n"


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    write_pages(tmp_path / "repo", readme="See [there](docs/lost.md), not `[here](nowhere.md)`.")
    with pytest.raises(FileNotFoundError, match=r"README.md links to docs/lost.md"):
        build_tree(tmp_path / "pages", tmp_path / "repo")
