"""What is the same if it is built again, and what a release says of itself."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tools.release.build import with_fixed_times
from tools.release.image import PLATFORMS, buildx_command, pin_base, read_base
from tools.release.notes import build_notes
from tools.release.statement import build_statement, read_digests, write_statement

ROOT = Path(__file__).parents[3]


def make_archive(files: dict[str, bytes], *, time: int, user: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uid = len(content), time, user
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_an_archive_does_not_tell_who_made_it_and_when() -> None:
    files = {"a": b"1", "b": b"22"}
    backwards = dict(reversed(files.items()))
    one = with_fixed_times(make_archive(files, time=1, user=1), 7)
    other = with_fixed_times(make_archive(backwards, time=2, user=2), 7)
    assert one == other
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        assert [(each.name, each.mtime, each.size) for each in tar] == [("a", 7, 1), ("b", 7, 2)]
    assert with_fixed_times(make_archive({"a": b"2"}, time=1, user=1), 7) != one


def test_the_statement_names_each_output_and_what_it_was_made_from(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "wheel").write_bytes(b"content")
    wanted = {"python/wheel": hashlib.sha256(b"content").hexdigest()}
    outputs = read_digests(tmp_path)
    assert outputs == wanted
    statement = build_statement(outputs, commit="c" * 40, version="1.0.0", locks={"lock": "d" * 64})
    assert statement["subject"] == [
        {"name": "python/wheel", "digest": {"sha256": wanted["python/wheel"]}}
    ]
    definition = statement["predicate"]["buildDefinition"]
    source, lock = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": "c" * 40}
    assert lock == {"name": "lock", "digest": {"sha256": "d" * 64}}
    assert "://" in statement["predicate"]["runDetails"]["builder"]["id"]

    write_statement(tmp_path, statement)
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["provenance.intoto.json: OK", "python/wheel: OK"]
    assert read_digests(tmp_path) == wanted


def test_fragments_become_a_section(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("How to")
    (tmp_path / "1.b.fixed.md").write_text("Mended\nb.\n")
    (tmp_path / "1.a.added.md").write_text("Has a.\n")
    (tmp_path / "2.c.added.md").write_text("* Has c.")
    assert build_notes(tmp_path, "1.0.0") == (
        "## 1.0.0\n\n### Added\n\n* Has a.\n* Has c.\n\n### Fixed\n\n* Mended b.\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("1.a.better.md", "Text.", r"changes/1\.a\.better\.md: name it"),
        ("1.a.added.txt", "Text.", r"changes/1\.a\.added\.txt: name it"),
        ("notes", "Text.", "changes/notes: name it"),
        ("1.a.added.md", " \n", r"changes/1\.a\.added\.md: it is empty"),
    ],
)
def test_a_wrong_fragment_is_refused_with_its_name(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        build_notes(tmp_path, "1.0.0")


def test_the_fragments_that_are_here_become_a_section() -> None:
    assert build_notes(ROOT / "changes", "1.0.0").startswith("## 1.0.0\n")


def test_the_image_is_for_both_kinds_of_machines_and_is_not_pushed() -> None:
    base = read_base((ROOT / "Dockerfile").read_text())
    pinned = f"{base}@sha256:{'0' * 64}"
    assert pin_base(pinned) == pinned
    command = buildx_command(Path("tree"), Path("image.tar"), tag="1.0.0", base=pinned)
    assert f"--platform={','.join(PLATFORMS)}" in command
    assert f"--build-arg=PYTHON={pinned}" in command
    assert {"--sbom=true", "--provenance=mode=max"} <= set(command)
    assert "--push" not in command
    assert command[-1] == "tree"
