"""Which version a commit has, and where it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.version import Version as PackageVersion

from tools.release.version import STAMPS, Version, decide_version, parse_tag, read_version, stamp

ROOT = Path(__file__).parents[3]
SEMANTIC = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


@pytest.mark.parametrize(
    ("described", "python", "semantic"),
    [
        ("v0.2.0-0-gabc", "0.2.0", "0.2.0"),
        ("v0.2.0-rc.1-0-gabc", "0.2.0rc1", "0.2.0-rc.1"),
        ("v0.2.0-7-gabc", "0.2.1.dev7+gabc", "0.2.1-dev.7.gabc"),
        ("v0.2.0-rc.1-7-gabc", "0.2.0.dev7+gabc", "0.2.0-dev.7.gabc"),
        (None, "0.1.0.dev99+gabc", "0.1.0-dev.99.gabc"),
    ],
)
def test_the_version_is_that_of_the_tag(described: str | None, python: str, semantic: str) -> None:
    found = decide_version(described, declared="0.1.0", count=99, commit="abc")
    assert found == Version(python, semantic)
    assert str(PackageVersion(python)) == python
    assert SEMANTIC.fullmatch(semantic)


@pytest.mark.parametrize("tag", ["v1", "v1.2", "0.2.0", "v0.2.0-beta", "v0.2.0rc", "v0.2.0.1"])
def test_a_tag_that_is_no_version_is_refused_with_its_name(tag: str) -> None:
    with pytest.raises(ValueError, match=f"tag {re.escape(tag)}: it is no version"):
        parse_tag(tag)


def test_it_is_written_wherever_the_tree_states_it(tmp_path: Path) -> None:
    for name in {name for name, _, _ in STAMPS}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    stamp(tmp_path, parse_tag("v9.8.7-rc.1"))
    assert '__version__ = "9.8.7rc1"\n' in (tmp_path / "multiqueue/__init__.py").read_text()
    chart = (tmp_path / "config/helm/Chart.yaml").read_text()
    assert "\nversion: 9.8.7-rc.1\nappVersion: 9.8.7-rc.1\n" in chart
    for base in ("manager", "worker-guard"):
        kustomization = (tmp_path / "config" / base / "kustomization.yaml").read_text()
        assert kustomization.endswith("  newTag: 9.8.7-rc.1\n")


def test_a_file_that_states_no_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "multiqueue").mkdir()
    (tmp_path / "multiqueue/__init__.py").write_text("")
    with pytest.raises(ValueError, match=r"multiqueue/__init__\.py: no line fits"):
        stamp(tmp_path, parse_tag("v1.0.0"))


def test_this_commit_has_a_version() -> None:
    assert SEMANTIC.fullmatch(read_version(ROOT).semantic)
