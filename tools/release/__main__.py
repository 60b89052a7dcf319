"""`make release`: everything of a release but publishing it, in dist/."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.controlplane import binaries
from tools.release.build import ReleaseTools, build_outputs, check_packages, export_tree
from tools.release.image import build_image, buildx_command, check_wheels, has_buildx, read_base
from tools.release.notes import build_notes
from tools.release.statement import LOCAL_BUILDER, build_statement, read_digests, write_statement
from tools.release.version import git, read_version, stamp

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-build.lock")


def main() -> int:
    """Build the release of the last commit; answers the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to put it; what it holds is replaced")
    target = parser.parse_args().folder.resolve()
    try:
        with tempfile.TemporaryDirectory(prefix="multiqueue-release-") as scratch:
            made = make_release(Path(scratch))
            if target.exists():
                shutil.rmtree(target)
            shutil.move(made, target)
    except (ValueError, FileNotFoundError) as error:
        say(f"no release: {error}")
        return 1
    except subprocess.CalledProcessError as error:
        say(f"no release: this failed: {shlex.join(map(str, error.cmd))}")
        return 1
    for name in sorted(each.relative_to(target).as_posix() for each in target.rglob("*.*")):
        say(f"  {name}")
    return 0


def make_release(scratch: Path) -> Path:
    """Build everything in a folder; answers the finished part of it."""
    version, commit = read_version(ROOT), git(ROOT, "rev-parse", "HEAD")
    epoch = int(git(ROOT, "show", "--no-patch", "--format=%ct", "HEAD"))
    say(f"multiqueue {version.python} ({commit[:10]})")
    if git(ROOT, "status", "--porcelain"):
        say("note: what is not committed is left out")
    tools = ReleaseTools(find_program("helm"), find_program("kubectl"))
    outputs = []
    for name in ("first", "second"):
        tree, made = scratch / f"{name}-tree", scratch / f"{name}-made"
        export_tree(ROOT, "HEAD", tree)
        stamp(tree, version)
        build_outputs(tree, made, tools, version=version.python, epoch=epoch)
        outputs.append(made)
    first, second = outputs
    compare(first, second)
    check_packages(first / "python")
    (first / "CHANGELOG.md").write_text(build_notes(tree / "changes", version.python))
    for name in LOCKS:
        check_wheels(tree / name)
    archive = first / f"multiqueue-{version.semantic}-image.tar"
    if has_buildx():
        build_image(tree, archive, tag=version.semantic, epoch=epoch)
    else:
        base = read_base((tree / "Dockerfile").read_text())
        command = buildx_command(Path(), archive, tag=version.semantic, base=base)
        say("the image is missing: there is no docker buildx here. Where there is, this makes it:")
        say(f"  {shlex.join(command).replace(str(first), 'dist')}")
    statement = build_statement(
        read_digests(first),
        commit=commit,
        version=version.python,
        locks={name: hashlib.sha256((tree / name).read_bytes()).hexdigest() for name in LOCKS},
        builder=os.environ.get("RELEASE_BUILDER", LOCAL_BUILDER),
    )
    write_statement(first, statement)
    return first


def compare(first: Path, second: Path) -> None:
    """Compare what was built twice.

    Raises:
        ValueError: It differs; names the files.
    """
    one, other = read_digests(first), read_digests(second)
    differing = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    if differing:
        raise ValueError(f"built twice, these files differ: {', '.join(differing)}")


def find_program(name: str) -> Path:
    """The program on this machine, or the one that the tests use; Go builds that once.

    Raises:
        FileNotFoundError: Neither is here.
        subprocess.CalledProcessError: It does not build.
    """
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    binaries.build(name)
    return binaries.get(name)


def say(text: str) -> None:
    """Tell the user."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
