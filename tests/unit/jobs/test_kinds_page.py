"""docs/job-kinds.md lists the kinds that are built in."""

from __future__ import annotations

from pathlib import Path

from multiqueue.api.job_kinds import JOB_KINDS, KnownKind
from multiqueue.jobs.setup import load_kind

PAGE = Path(__file__).parents[3] / "docs" / "job-kinds.md"
BEGIN, END = "<!-- kinds -->\n", "<!-- /kinds -->"


def describe(row: KnownKind) -> str:
    needs = f"feature gate `{row.gate}`" if row.gate else ""
    on_workers = "yes" if load_kind(row).adapter is not None else "no"
    if row.implies_pods:
        needs = "pods, which are enabled with it"
        on_workers = on_workers if row.groups_pods else "through its pods"
    return f"| `{row.framework}` | {row.api_version} {row.kind} | {needs} | {on_workers} |"


def test_the_page_lists_every_kind() -> None:
    text = PAGE.read_text()
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    rows = [describe(row) for row in JOB_KINDS if row.folder]
    wanted = "| name | kind | needs | runs on workers |\n|---|---|---|---|\n" + "\n".join(rows)
    assert shown == f"{wanted}\n", f"put this between the marks of {PAGE.name}:\n{wanted}"
