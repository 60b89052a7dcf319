"""docs/job-kinds.md lists the kinds that are built in, and its code for another one works."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from multiqueue.api.job_kinds import JOB_KINDS, KnownKind
from multiqueue.embedded.cluster import simulated_kinds
from multiqueue.embedded.cluster.simulated_kinds import JobPhase
from multiqueue.jobs.setup import load_kind

PAGE = Path(__file__).parents[3] / "docs" / "job-kinds.md"
BEGIN, END = "<!-- kinds -->\n", "<!-- /kinds -->"


SAMPLES = PAGE.parents[1] / "config" / "samples-kinds"


def describe(row: KnownKind) -> str:
    needs = f"feature gate `{row.gate}`" if row.gate else ""
    on_workers = "yes" if load_kind(row).adapter is not None else "no"
    if row.implies_pods:
        needs = "pods, which are enabled with it"
        on_workers = on_workers if row.groups_pods else "through its pods"
    sample = f"{row.kind.lower()}.yaml"
    assert (SAMPLES / sample).exists(), f"{row.kind} has no example"
    example = f"[{sample}](../config/samples-kinds/{sample})"
    return (
        f"| `{row.framework}` | {row.api_version} {row.kind} | {needs} | {on_workers} | {example} |"
    )


def test_the_page_lists_every_kind() -> None:
    text = PAGE.read_text()
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    rows = [describe(row) for row in JOB_KINDS if row.folder]
    head = "| name | kind | needs | runs on workers | example |\n|---|---|---|---|---|\n"
    wanted = head + "\n".join(rows)
    assert shown == f"{wanted}\n", f"put this between the marks of {PAGE.name}:\n{wanted}"


def code(mark: str, given: dict[str, Any]) -> dict[str, Any]:
    """What a block of code on the page defines."""
    found = re.search(
        rf"<!-- {re.escape(mark)} -->\n *```python\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert found is not None, mark
    exec(textwrap.dedent(found[1]), given)
    return given


def test_the_code_of_the_page_adds_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("multiqueue.jobs.widget.integration")
    for package in ("multiqueue.jobs.widget", module.__name__):
        monkeypatch.setitem(sys.modules, package, module)
    code("integration.py", vars(module))
    row = KnownKind(
        framework="widgets.example.com/widget",
        kind="Widget",
        group="widgets.example.com",
        version="v1",
        plural="widgets",
        folder="widget",
    )
    built = code("__init__.py", {})["build"](row)
    kind = built.integration
    simulated = code("simulated_kinds.py", dict(vars(simulated_kinds)))
    spec = simulated["_widget_spec"]()
    [pod_set] = kind.pod_sets({"metadata": {"name": "w"}, "spec": spec})
    assert (pod_set.name, pod_set.count) == ("main", 1)
    seen = {
        phase: {"spec": spec, "status": simulated["_widget_status"](spec, phase)}
        for phase in JobPhase
    }
    assert {phase for phase, job in seen.items() if kind.is_active(job)} == {
        JobPhase.RUNNING,
        JobPhase.READY,
    }
    assert {phase for phase, job in seen.items() if kind.pods_ready(job)} == {JobPhase.READY}
    ends = {phase: end.success for phase, job in seen.items() if (end := kind.finished(job))}
    assert ends == {JobPhase.SUCCEEDED: True, JobPhase.FAILED: False}
    assert built.adapter is not None
