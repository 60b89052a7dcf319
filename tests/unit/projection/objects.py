"""A manager with one team, and workers, for tests of projections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.api.names import PROJECTED_FROM
from multiqueue.lint.world import LintEntry, LintInput, LintSurroundings
from multiqueue.projection.desired import Desired, build_desired
from multiqueue.projection.fleet import API_VERSION, KIND, load_fleet
from multiqueue.projection.fleet import PROJECTED_KINDS as KINDS
from multiqueue.projection.plan import Options, SyncPlan, make_plan
from tests.unit.lint.objects import (
    MULTIKUEUE,
    Json,
    check,
    checked,
    cluster_queue,
    flavor,
    local_queue,
    namespace,
    obj,
    priority,
    quota,
)

ORIGIN = "the-manager"
TEAM = "kueue.x-k8s.io/team"
MANAGER = [
    namespace("n", **{TEAM: "n", "pod-security.kubernetes.io/enforce": "baseline"}),
    flavor(nodeLabels={"gpu": "a100"}),
    priority("high", 100),
    check("mk", MULTIKUEUE, "fleet"),
    obj("MultiKueueConfig", "fleet", {"clusters": ["w"]}),
    obj("MultiKueueCluster", "w", {}),
    {
        **cluster_queue(admissionChecksStrategy=checked("mk")),
        "spec": {
            **cluster_queue(admissionChecksStrategy=checked("mk"))["spec"],
            "namespaceSelector": {"matchLabels": {TEAM: "n"}},
        },
    },
    local_queue(),
]
FLEET = f"""
apiVersion: {API_VERSION}
kind: {KIND}
workers:
- name: w
  flavors:
  - name: f
    spec: {{tolerations: [{{key: gpu, operator: Exists}}]}}
  clusterQueues:
  - name: all
    spec:
      resourceGroups:
      - coveredResources: [cpu]
        flavors: [{{name: f, resources: [{{name: cpu, nominalQuota: 8}}]}}]
"""


def seen(*objects: Json, workloads: bool = True, kinds: Sequence[str] = KINDS) -> LintInput:
    """A cluster of which all projected kinds were read."""
    complete = frozenset([*kinds, *(["Workload"] if workloads else [])])
    return LintInput([LintEntry(o) for o in objects], LintSurroundings(complete=complete))


def desired(
    *there: Json, manager: Sequence[Json] = MANAGER, content: str | None = FLEET
) -> Desired:
    """What worker "w" shall have."""
    return build_desired(
        "w",
        manager=seen(*manager),
        fleet=None if content is None else load_fleet(content),
        there=seen(*there),
        origin=ORIGIN,
    )


def plan(*there: Json, workloads: bool = True, **options: Any) -> SyncPlan:
    """What sync would do on worker "w"."""
    manager = options.pop("manager", MANAGER)
    content = options.pop("content", FLEET)
    wanted = desired(*there, manager=manager, content=content)
    return make_plan(wanted, seen(*there, workloads=workloads), Options(origin=ORIGIN, **options))


def steps(made: SyncPlan) -> list[str]:
    """Each step as ``create Namespace n``."""
    return [f"{s.action} {s.obj['kind']} {s.obj['metadata']['name']}" for s in made.steps]


def held(made: SyncPlan) -> list[str]:
    """Each object that is left alone, as ``NotOurs ResourceFlavor f``."""
    return [f"{h.reason} {h.obj['kind']} {h.obj['metadata']['name']}" for h in made.held]


def projected(manifest: Mapping[str, Any], origin: str = ORIGIN) -> Json:
    """An object with our label."""
    metadata = manifest["metadata"]
    labels = {**metadata.get("labels", {}), PROJECTED_FROM: origin}
    return {**manifest, "metadata": {**metadata, "labels": labels}}


__all__ = ["cluster_queue", "flavor", "local_queue", "namespace", "priority", "quota"]
