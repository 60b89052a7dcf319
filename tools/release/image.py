"""The image for two kinds of machines; Docker's buildx makes it where it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.release.build import run

PLATFORMS = {"linux/amd64": "x86_64-manylinux_2_28", "linux/arm64": "aarch64-manylinux_2_28"}
"""Of the image; what wheels for each may be called, as uv names it."""
BASE = re.compile(r"(?m)^ARG PYTHON=(\S+)$")


def read_base(dockerfile: str) -> str:
    """The image that a Dockerfile begins with.

    Raises:
        ValueError: It does not say so in ``ARG PYTHON=``.
    """
    found = BASE.search(dockerfile)
    if found is None:
        raise ValueError("Dockerfile: no line ARG PYTHON= names the image to begin with")
    return found[1]


def buildx_command(tree: Path, target: Path, *, tag: str, base: str) -> list[str]:
    """The command that makes the image of a tree, with its own provenance and bill of materials.

    Args:
        tree: The stamped files of the commit.
        target: The archive to write, in OCI's format: nothing is pushed.
        tag: The tag of the image.
        base: The image to begin with, by its digest.
    """
    output = f"type=oci,dest={target},name=multiqueue:{tag},rewrite-timestamp=true"
    return [
        *("docker", "buildx", "build"),
        f"--platform={','.join(PLATFORMS)}",
        f"--build-arg=PYTHON={base}",
        "--build-arg=SOURCE_DATE_EPOCH",
        "--provenance=mode=max",
        "--sbom=true",
        f"--output={output}",
        str(tree),
    ]


def check_wheels(lock: Path) -> None:
    """Ask the index for a wheel of each locked package for each kind of machine.

    Raises:
        subprocess.CalledProcessError: The image cannot be built for one; uv printed why.
    """
    for wheels in PLATFORMS.values():
        options = ["--dry-run", "--only-binary=:all:", "--require-hashes", "--python-version=3.11"]
        target = [f"--python-platform={wheels}", f"--target={lock.parent / 'nowhere'}"]
        run(
            [
                sys.executable,
                "-m",
                "uv",
                "pip",
                "install",
                *options,
                *target,
                f"--requirement={lock}",
            ]
        )


def has_buildx() -> bool:
    """Whether ``docker buildx`` is installed here and has a builder to use."""
    return _succeeds(["docker", "buildx", "inspect"])


def pin_base(base: str) -> str:
    """The image that a tag names now, by its digest; one with a digest is answered as it is.

    Raises:
        subprocess.CalledProcessError: The registry does not answer, or does not know it.
    """
    if "@sha256:" in base:
        return base
    inspect = ["docker", "buildx", "imagetools", "inspect", base]
    digest = run([*inspect, "--format={{.Manifest.Digest}}"]).strip()
    return f"{base}@{digest}"


def build_image(tree: Path, target: Path, *, tag: str, epoch: int) -> None:
    """Make the image, from the digest that its base has now.

    Raises:
        subprocess.CalledProcessError: Docker failed; it printed why.
    """
    base = pin_base(read_base((tree / "Dockerfile").read_text()))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    run(buildx_command(tree, target, tag=tag, base=base), environment)


def _succeeds(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=30)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
