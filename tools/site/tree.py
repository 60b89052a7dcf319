"""The pages of the documentation site: those of the repository, at the same relative paths.

Links between pages, and to manifests and modules, therefore work in the site as they do in the
repository. What a page links to is copied beside it; a folder gets a page that lists its files.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "dispatchers/README.md", "config")
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s#]+)(?:#[^)\s]+)?\)")
BLOCKS = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def build_tree(target: Path, root: Path = ROOT) -> None:
    """Copy all pages into an empty folder, with everything that they link to.

    Raises:
        FileNotFoundError: A page links to something that is not there.
    """
    open_pages = [page for name in PAGES for page in _find_pages(root / name)]
    known: set[Path] = set()
    while open_pages:
        path = open_pages.pop()
        if path in known:
            continue
        known.add(path)
        place = target / path.relative_to(root)
        if path.is_dir():
            _list_folder(path, place, root)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        if path.suffix == ".md":
            open_pages += _find_targets(path, root)
            place.write_text(_link_listings(path), encoding="utf-8")


def _find_pages(path: Path) -> Iterator[Path]:
    yield from (path.rglob("*.md") if path.is_dir() else [path])


def _find_targets(page: Path, root: Path) -> Iterator[Path]:
    for link in LINK.findall(BLOCKS.sub("", page.read_text(encoding="utf-8"))):
        target = Path(os.path.normpath(page.parent / link))
        if not target.exists() or not target.is_relative_to(root):
            raise FileNotFoundError(f"{page.relative_to(root)} links to {link}, which is not there")
        readme = target / "README.md"
        yield readme if readme.exists() else target


def _link_listings(page: Path) -> str:
    """Return the text of a page, with links to folders led to their pages."""

    def lead(found: re.Match[str]) -> str:
        link = found[1]
        if not (page.parent / link).is_dir():
            return found[0]
        return found[0].replace(link, f"{link.rstrip('/')}/README.md", 1)

    return LINK.sub(lead, page.read_text(encoding="utf-8"))


def _list_folder(folder: Path, place: Path, root: Path) -> None:
    """Write a page with the files of a folder that has no page of its own, and copy them."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    place.mkdir(parents=True, exist_ok=True)
    for path in files:
        shutil.copyfile(path, place / path.name)
    lines = [f"# {folder.relative_to(root)}", "", *(f"- [{p.name}]({p.name})" for p in files), ""]
    (place / "README.md").write_text("\n".join(lines), encoding="utf-8")
