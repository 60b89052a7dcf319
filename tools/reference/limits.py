"""docs/reference/limits.md: the limits of the program, from the constants that set them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from multiqueue.api.crd.definitions import load_crds
from multiqueue.api.durations import format_duration
from tools.reference import kinds
from tools.reference.markdown import ROOT, Reference, code, page, read_constants, table

LIMIT_HEAD = ("limit", "value", "why")
HEAD = """Limits that are set in the program, each with the value that it has now.
[Sizing](../sizing.md) says what was measured. Further tables: [limits of a
dispatcher](dispatchers.md#limits), and what the manager accepts
[from a worker](../security.md#a-workers-owner) and
[at its ports](../security.md#somebody-who-can-reach-a-port)."""
LIMITS = (
    ("kube/sizes.py", "MAX_ANSWER_BYTES", "one answer of an API server, in bytes"),
    ("kube/sizes.py", "MAX_OBJECT_BYTES", "one event of a watch, in bytes"),
    ("kube/sizes.py", "MAX_COLLECTION_BYTES", "all objects of one kind, in bytes"),
    ("kube/sizes.py", "MAX_SKIMMED_BYTES", "all Pods, in bytes"),
    ("kube/write_budget.py", "MAX_WINDOW", "statuses and Events that are written at a time"),
    ("kube/events.py", "MAX_QUEUE", "Events that wait to be written"),
    ("jobs/framework/execute_members.py", "MAX_WRITING", "pods of a group written at a time"),
    ("workers/kubeconfigs/credentials.py", "MAX_KUBECONFIG_BYTES", "a kubeconfig, in bytes"),
    ("dispatch/observe/memory.py", "MAX_ROUNDS", "earlier answers that a dispatcher sees"),
    ("api/cluster_orders.py", "MAX_AT_ONCE", "jobs that a drain moves at a time"),
    ("api/alternatives.py", "MOST", "hardware in `multiqueue.dev/alternatives`"),
    ("api/topology_encoding.py", "MAX_DOMAINS", "domains of a topology assignment"),
    ("api/disruptions.py", "MOST_IN_ONE", "disruptions in one budget"),
    ("api/v1alpha1/job_kind.py", "MAX_EXPRESSION", "characters of an expression of a JobKind"),
    ("api/v1alpha1/usage_report.py", "MAX_ROWS", "rows of a UsageReport"),
    ("visibility/fleet/watch.py", "MAX_ROWS", "rows that a watch of the fleet API reads at once"),
    ("visibility/fleet/answers.py", "MAX_BYTES", "an answer of the fleet API, in bytes"),
    ("visibility/fleet/journal.py", "MAX_KEYS", "standings that the fleet API remembers"),
    ("visibility/fleet/history.py", "MAX_CHANGES", "changes that `multiqueue changes` can show"),
)
"""Module, constant and what it limits."""


def build() -> Reference:
    """Return the page."""
    missing: list[str] = []
    fields = [
        [f"`{definition['spec']['names']['kind']}`", code(path), code(str(most))]
        for definition in load_crds()
        for path, most in kinds.list_most_items(definition)
    ]
    text = page(
        "Limits",
        "the constants in `multiqueue` and the definitions of the kinds",
        HEAD,
        "## Of the manager",
        table(LIMIT_HEAD, limit_rows(LIMITS, missing)),
        "## Of objects",
        "The most items of a list, and the most keys of a map. The API server refuses more.",
        table(["kind", "field", "most"], fields),
    )
    return Reference(name="limits.md", text=text, undescribed=tuple(missing))


def limit_rows(limits: Iterable[tuple[str, str, str]], missing: list[str]) -> Iterator[list[str]]:
    """Yield a row for each limit, and collect those without a text beside them."""
    for module, name, what in limits:
        path = Path("multiqueue", module)
        value = getattr(import_module(".".join(path.with_suffix("").parts)), name)
        why = next(each.doc for each in read_constants(ROOT / path) if each.name == name)
        if not why:
            missing.append(f"{module} {name}")
        text = format_duration(value) if isinstance(value, timedelta) else f"{value:,g}"
        yield [what, code(f"{value:,}" if isinstance(value, int) else text), why]
