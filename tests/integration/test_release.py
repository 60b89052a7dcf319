"""`make release`, as a maintainer starts it."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tools.release.build import BASES
from tools.release.version import git, read_version

ROOT = Path(__file__).parents[2]


@pytest.mark.programs
@pytest.mark.timeout(300)
def test_everything_but_publishing(tmp_path: Path) -> None:
    """One test: the release is built once; it compares what it builds twice itself."""
    target = tmp_path / "dist"
    command = [sys.executable, "-m", "tools.release", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    version = read_version(ROOT)
    assert f"multiqueue {version.python} " in done.stdout
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=target, check=True)
    assert_chart(target / f"multiqueue-{version.semantic}.tgz", version.semantic)
    assert_manifests(target / "manifests", version.semantic)
    assert_bill(target / "multiqueue.cdx.json", version.python)
    assert_statement(target)
    assert (target / "CHANGELOG.md").read_text().startswith(f"## {version.python}\n")
    image = target / f"multiqueue-{version.semantic}-image.tar"
    assert image.exists() is not ("there is no docker buildx here" in done.stdout)
    assert_wheel_and_sdist(target / "python", version.python)


def assert_wheel_and_sdist(folder: Path, version: str) -> None:
    """The sdist has what the wheel is built from, and both have the program's version."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    package = f'__version__ = "{version}"\n'
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        assert package in opened.read("multiqueue/__init__.py").decode()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "multiqueue",
        "multiqueue_dispatchers",
    }
    with tarfile.open(sdist) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    code = {name for name in names if name.endswith((".py", ".yaml")) and "dist-info" not in name}
    assert {name.removeprefix("dispatchers/") for name in inside} >= code


def assert_chart(package: Path, version: str) -> None:
    with tarfile.open(package) as opened:
        file = opened.extractfile("multiqueue/Chart.yaml")
        assert file is not None
        chart = yaml.safe_load(file)
        assert opened.getmember("multiqueue/files/manager/manager.yaml").isfile()
    assert chart["version"] == chart["appVersion"] == version


def assert_manifests(folder: Path, version: str) -> None:
    objects = {
        base: list(yaml.safe_load_all((folder / f"{base}.yaml").read_text())) for base in BASES
    }
    assert {file.stem for file in folder.iterdir()} == set(BASES)
    (deployment,) = (each for each in objects["default"] if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"multiqueue:{version}"


def assert_bill(file: Path, version: str) -> None:
    """It lists each locked package once, with its version."""
    bill = json.loads(file.read_text())
    assert bill["metadata"]["component"]["version"] == version
    listed = sorted(f"{each['name']}=={each['version']}" for each in bill["components"])
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    locked = [line.split()[0] for line in lines if line[:1].isalnum()]
    assert listed == sorted(locked)


def assert_statement(target: Path) -> None:
    statement = json.loads((target / "provenance.intoto.json").read_text())
    dependencies = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert dependencies[0]["digest"] == {"gitCommit": git(ROOT, "rev-parse", "HEAD")}
    lines = [line.split("  ") for line in (target / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    assert sums.pop("provenance.intoto.json")
    assert subjects == sums
