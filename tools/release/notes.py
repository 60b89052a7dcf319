"""The section of CHANGELOG.md that the fragments in changes/ make."""

from __future__ import annotations

from pathlib import Path

TITLES = {
    "added": "Added",
    "changed": "Changed",
    "deviation": "Differs from Kueue",
    "fixed": "Fixed",
    "removed": "Removed",
}


def build_notes(folder: Path, version: str) -> str:
    """Merge the fragments of a folder into one section.

    Raises:
        ValueError: A file is no fragment, or has no text.
    """
    entries: dict[str, list[str]] = {kind: [] for kind in TITLES}
    for file in sorted(folder.iterdir()):
        if file.name == "README.md":
            continue
        *_, kind, ending = ("", *file.name.split("."))
        if kind not in TITLES or ending != "md":
            kinds = "|".join(TITLES)
            raise ValueError(f"changes/{file.name}: name it <topic>.<{kinds}>.md")
        text = " ".join(file.read_text().split())
        if not text:
            raise ValueError(f"changes/{file.name}: it is empty; say what changed for the user")
        entries[kind].append(f"* {text.removeprefix('* ')}\n")
    sections = [
        f"### {title}\n\n{''.join(entries[kind])}"
        for kind, title in TITLES.items()
        if entries[kind]
    ]
    return "\n".join([f"## {version}\n", *sections])
