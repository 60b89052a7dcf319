"""The pages of the documentation site: complete, with what they link to (``make docs``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.site.tree import ROOT, build_tree


def test_every_page_has_a_place_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = (path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    assert [page for page in sorted(pages) if f"{page}\n" not in navigation] == []


def test_pages_bring_what_they_link_to(tmp_path: Path) -> None:
    build_tree(tmp_path / "pages")
    assert (tmp_path / "pages/docs/preemption.md").exists()
    assert (tmp_path / "pages/multiqueue/engine/README.md").exists()
    assert not list((tmp_path / "pages").rglob("*.pyc"))


def write_pages(root: Path, **texts: str) -> None:
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "dispatchers/README.md", "docs/a.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "config" / "samples").mkdir(parents=True)
    (root / "config" / "samples" / "1-queue.yaml").write_text("kind: ClusterQueue")
    (root / "README.md").write_text(texts["readme"])


def test_a_folder_without_a_page_is_listed(tmp_path: Path) -> None:
    write_pages(tmp_path / "repo", readme="See [samples](config/samples).")
    build_tree(tmp_path / "pages", tmp_path / "repo")
    assert (tmp_path / "pages/README.md").read_text() == "See [samples](config/samples/README.md)."
    listed = (tmp_path / "pages/config/samples/README.md").read_text()
    assert listed == "# config/samples\n\n- [1-queue.yaml](1-queue.yaml)\n"


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    write_pages(tmp_path / "repo", readme="See [there](docs/lost.md), not `[here](nowhere.md)`.")
    with pytest.raises(FileNotFoundError, match=r"README.md links to docs/lost.md"):
        build_tree(tmp_path / "pages", tmp_path / "repo")


QUESTIONS = [
    ("How do I submit a job?", "Submit", "docs/first-job.md", "2. Submit"),
    ("When will my job start?", "Submit", "docs/watching-jobs.md", "When a job starts"),
    ("It may use 8 A100s or 4 H100s.", "Submit", "docs/alternatives.md", "Which hardware"),
    ("How do I run a RayJob?", "Submit", "docs/job-kinds.md", "Ray"),
    ("How do I install it?", "Run it", "docs/install.md", "3. The manager"),
    ("How do I get the command?", "Run it", "docs/install.md", "1. The command"),
    ("How does a cluster become a worker?", "Run it", "docs/projection.md", "Bootstrap"),
    ("A worker needs maintenance.", "Run it", "docs/draining.md", "What a drain does"),
    ("Teams should use idle GPUs.", "Run it", "docs/quotas.md", "Borrowing and lending"),
    ("May two managers share it?", "Run it", "docs/projection.md", "Several managers"),
    ("How do I give a team 16 GPUs?", "Run it", "docs/quotas.md", "Change a quota safely"),
    ("Who can see my job?", "Run it", "docs/security.md", "Who sees a job"),
    ("What do I back up?", "Run it", "docs/upgrades.md", "Back up and restore"),
    ("A worker's token ends soon.", "Run it", "docs/projection.md", "Renew a worker's token"),
    ("How do I keep a cluster free?", "Write dispatchers", "docs/dispatchers/how-to.md", "Keep a"),
    ("Where are prices in the view?", "Reference", "docs/reference/dispatchers.md", "ClusterView"),
    ("How do I roll one out?", "Write dispatchers", "docs/dispatchers/how-to.md", "Roll out"),
]
"""What strangers ask: the tab, the page and the heading that answer."""


@pytest.mark.parametrize(("question", "tab", "page", "heading"), QUESTIONS)
def test_a_question_is_answered_where_one_looks(
    question: str, tab: str, page: str, heading: str
) -> None:
    tabs = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    section = f"\n{tabs}".split(f"\n- {tab}:\n")[1].split("\n- ")[0]
    assert f"{page}\n" in f"{section}\n", question
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert any(line.startswith((f"## {heading}", f"### {heading}")) for line in lines), question
