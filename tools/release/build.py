"""What a release consists of, built from a tree: wheel, sdist, chart, manifests, bill of materials.

Each is the same to the byte if it is built again from the same commit, in another folder.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BASES = (
    "default",
    "certmanager",
    "crd",
    "checkpoint-hooks",
    "worker-role",
    "worker-role-pods",
    "worker-role-hooks",
    "prometheus",
)
"""Bases of config/ that are released as one file each."""
BILL = "multiqueue.cdx.json"


@dataclass(frozen=True, slots=True)
class ReleaseTools:
    """Programs that are no Python packages."""

    helm: Path
    kubectl: Path


def export_tree(root: Path, commit: str, target: Path) -> None:
    """Copy the files of a commit, and only those, to a folder.

    Raises:
        subprocess.CalledProcessError: There is no such commit.
    """
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=root, check=True, stdout=subprocess.PIPE
    ).stdout
    target.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, filter="tar")


def build_outputs(
    tree: Path, target: Path, tools: ReleaseTools, *, version: str, epoch: int
) -> None:
    """Build everything but the image into a folder.

    Args:
        tree: The stamped files of the commit.
        target: The folder, which is made.
        tools: The programs to use.
        version: What is built, as PEP 440 writes it.
        epoch: The time of the commit, in seconds: the time of every file.

    Raises:
        subprocess.CalledProcessError: A program failed; it printed why.
    """
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    python, manifests = target / "python", target / "manifests"
    manifests.mkdir(parents=True)
    build = ["-m", "build", "--no-isolation", "--outdir", str(python), str(tree)]
    run([sys.executable, *build], environment)
    _package_chart(tree / "config" / "helm", target, tools.helm, epoch)
    for base in BASES:
        rendered = run([str(tools.kubectl), "kustomize", str(tree / "config" / base)])
        (manifests / f"{base}.yaml").write_text(rendered)
    _write_bill(tree, target / BILL, version, environment)


def check_packages(folder: Path) -> None:
    """Have twine check the wheel and the sdist.

    Raises:
        subprocess.CalledProcessError: The index would refuse one, or show its page wrongly.
    """
    files = sorted(str(each) for each in folder.iterdir())
    run([sys.executable, "-m", "twine", "check", "--strict", *files])


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a program; answers what it prints, and shows that only if it failed.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(f"{done.stdout}{done.stderr}")
    done.check_returncode()
    return done.stdout


def _package_chart(chart: Path, target: Path, helm: Path, epoch: int) -> None:
    made = target / "chart"
    run([str(helm), "package", str(chart), "--destination", str(made)])
    (package,) = made.iterdir()
    (target / package.name).write_bytes(with_fixed_times(package.read_bytes(), epoch))
    shutil.rmtree(made)


def with_fixed_times(archive: bytes, epoch: int) -> bytes:
    """The same .tar.gz, sorted, with one time and no owner; helm writes the present time."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member))
    return packed.getvalue()


def _write_bill(tree: Path, target: Path, version: str, environment: Mapping[str, str]) -> None:
    """List what the image installs beside this program: the locked packages with their hashes."""
    arguments = [
        "requirements",
        "--output-reproducible",
        "--output-format=JSON",
        f"--pyproject={tree / 'pyproject.toml'}",
        f"--output-file={target}",
        str(tree / "requirements.lock"),
    ]
    run([sys.executable, "-m", "cyclonedx_py", *arguments], environment)
    bill = json.loads(target.read_text())
    bill["metadata"]["component"]["version"] = version  # not in pyproject.toml
    target.write_text(json.dumps(bill, indent=2) + "\n")
