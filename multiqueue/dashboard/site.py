"""The files of the page, read once; their path has a hash, so browsers may keep them for ever."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Content types by the end of a name; other files of the folder are not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """One file, with its content type and whether browsers may keep it."""

    body: bytes
    content_type: str
    immutable: bool


class Site:
    """The page and its files, by path.

    Shape: ``/`` is the page, ``/assets/HASH/…`` are its files. HASH is of all files together, so
    modules find each other by relative names.

    Args:
        base: The path before these, as browsers see it, such as ``/queue``; the page asks below it.
    """

    def __init__(self, base: str = "") -> None:
        found = dict(_walk(resources.files("multiqueue.dashboard") / "assets", ""))
        digest = hashlib.sha256()
        for name, body in sorted(found.items()):
            digest.update(name.encode() + b"\0" + body)
        assets = f"assets/{digest.hexdigest()[:12]}"
        page = found.pop("index.html").replace(b"{{base}}", base.encode())
        page = page.replace(b"{{assets}}", assets.encode())
        self._files = {
            f"/{assets}/{name}": SiteFile(
                body=body, content_type=TYPES[name.rpartition(".")[2]], immutable=True
            )
            for name, body in found.items()
        }
        self._files["/"] = SiteFile(body=page, content_type=TYPES["html"], immutable=False)

    def get(self, path: str) -> SiteFile | None:
        """Return the file at a path."""
        return self._files.get(path)

    def paths(self) -> list[str]:
        """Return all paths, sorted."""
        return sorted(self._files)


_NOT_NEEDED = re.compile(
    rb"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n|^[ \t]*//[^\n]*\n|^[ \t]*\n|^[ \t]+",
    re.MULTILINE | re.DOTALL,
)
"""Lines that are empty or comments, and indentation: a tenth of what a browser would load."""
_SPACE_OF_STYLES = re.compile(rb'("[^"]*")|[\s;]*(})\s*|\s*([{;])\s*|(?<=[:,])\s+')


def shrink(name: str, body: bytes) -> bytes:
    """Return a file as browsers get it: our own without comments and needless space."""
    if not name.endswith((".mjs", ".css")) or name.startswith("vendor/"):
        return body
    needed = _NOT_NEEDED.sub(b"", body)
    return _SPACE_OF_STYLES.sub(rb"\1\2\3", needed) if name.endswith(".css") else needed


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in TYPES:
            name = prefix + entry.name
            found.append((name, shrink(name, entry.read_bytes())))
    return found
