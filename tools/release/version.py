"""The version of a release: that of its tag, written as each package manager wants it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)(?:-?rc\.?(\d+))?")
DECLARED = re.compile(r'(?m)^__version__ = "(\d+\.\d+\.\d+)"$')
PACKAGE = "multiqueue/__init__.py"
PROGRAM = (PACKAGE, r'(?m)^(__version__ = ").*(")$', "python")
STAMPS = (
    PROGRAM,
    ("config/helm/Chart.yaml", r"(?m)^(version: ).*()$", "semantic"),
    ("config/helm/Chart.yaml", r"(?m)^(appVersion: ).*()$", "semantic"),
    ("config/manager/kustomization.yaml", r"(?m)^(  newTag: ).*()$", "semantic"),
    ("config/worker-guard/kustomization.yaml", r"(?m)^(  newTag: ).*()$", "semantic"),
)
"""File, pattern around the version, and which form of the version stands there."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version in the two forms that a release needs."""

    python: str
    """As PEP 440 writes it: 0.2.0, 0.2.0rc1, 0.2.1.dev5+g0123abc."""
    semantic: str
    """As helm wants it, and valid as the tag of an image: 0.2.0, 0.2.0-rc.1, 0.2.1-dev.5.g0123."""


def parse_tag(tag: str) -> Version:
    """The version of a tag such as v0.2.0 or v0.2.0-rc.1.

    Raises:
        ValueError: The tag is no version.
    """
    found = TAG.fullmatch(tag)
    if found is None:
        raise ValueError(f"tag {tag}: it is no version; name it like v0.2.0 or v0.2.0-rc.1")
    base, candidate = ".".join(found.group(1, 2, 3)), found[4]
    if candidate is None:
        return Version(base, base)
    return Version(f"{base}rc{candidate}", f"{base}-rc.{candidate}")


def decide_version(described: str | None, *, declared: str, count: int, commit: str) -> Version:
    """The version of a commit.

    Args:
        described: What ``git describe --tags --long`` says; None: the commit has no tag before it.
        declared: The version in the source, for a history without tags.
        count: How many commits there are up to this one.
        commit: The commit, shortened.

    Raises:
        ValueError: The nearest tag is no version.
    """
    base, distance = declared, count
    if described is not None:
        tag, after, _ = described.rsplit("-", 2)
        tagged, distance = parse_tag(tag), int(after)
        if distance == 0:
            return tagged
        base = tagged.semantic.partition("-")[0]
        if base == tagged.semantic:  # What follows 0.2.0 comes before 0.2.1.
            major, minor, patch = base.split(".")
            base = f"{major}.{minor}.{int(patch) + 1}"
    return Version(f"{base}.dev{distance}+g{commit}", f"{base}-dev.{distance}.g{commit}")


def read_version(root: Path, commit: str = "HEAD") -> Version:
    """The version of a commit of a repository.

    Raises:
        ValueError: The nearest tag is no version.
        subprocess.CalledProcessError: There is no such repository or commit.
    """
    describe = ["describe", "--tags", "--long", "--match=v[0-9]*", commit]
    described = subprocess.run(
        ["git", *describe], cwd=root, capture_output=True, text=True, check=False
    )
    source = git(root, "show", f"{commit}:{PACKAGE}")
    declared = DECLARED.search(source)
    if declared is None:
        raise ValueError(f"{PACKAGE}: it has no line __version__ with a version like 0.2.0")
    return decide_version(
        described.stdout.strip() if described.returncode == 0 else None,
        declared=declared[1],
        count=int(git(root, "rev-list", "--count", commit)),
        commit=git(root, "rev-parse", "--short=10", commit),
    )


def stamp(tree: Path, version: Version, places: Sequence[tuple[str, str, str]] = STAMPS) -> None:
    """Write the version wherever a tree states it.

    Raises:
        ValueError: A file does not state it where expected.
    """
    for name, pattern, form in places:
        file = tree / name
        text, count = re.subn(
            pattern, rf"\g<1>{getattr(version, form)}\g<2>", file.read_text(), count=1
        )
        if count != 1:
            raise ValueError(f"{name}: no line fits {pattern}, so the version cannot be written")
        file.write_text(text)


def git(root: Path, *arguments: str) -> str:
    """Run git; answers what it prints, stripped.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=root, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
