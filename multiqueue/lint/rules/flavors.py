"""Rules about ResourceFlavors, their nodes and their topology."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.validation.access import Object, items, mapping, text
from multiqueue.lint.finding import Severity
from multiqueue.lint.nodes import matching_nodes, needs_nodes, uncovered_taints
from multiqueue.lint.quotas import absent, missing_severity, quotas_of
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import LintInput, Lookup, Sight, flavors_of, labels_of, name_of


@lint_rule(
    "flavor-missing",
    kinds=("ClusterQueue", "Cohort"),
    severity=Severity.ERROR,
    title="a flavor that does not exist",
    why="A ClusterQueue is inactive (FlavorNotFound) and admits nothing until all of its flavors "
    "exist.",
)
def missing(queue: Object, lookup: Lookup) -> Iterator[Hit]:
    for path, flavor in flavors_of(queue):
        name = text(flavor.get("name"))
        if name and lookup.get("ResourceFlavor", name) is None:
            yield Hit(
                f"{path}.name",
                absent(lookup, "ResourceFlavor", name),
                "create it, or correct the name",
                missing_severity(lookup, "ResourceFlavor"),
            )


@lint_rule(
    "flavor-topology-missing",
    kinds=("ResourceFlavor",),
    severity=Severity.ERROR,
    title="a flavor with a Topology that does not exist",
    why="ClusterQueues that use the flavor are inactive (TopologyNotFound).",
)
def topology_missing(flavor: Object, lookup: Lookup) -> Iterator[Hit]:
    name = text(mapping(flavor, "spec").get("topologyName"))
    if name and lookup.get("Topology", name) is None:
        yield Hit(
            "spec.topologyName",
            absent(lookup, "Topology", name),
            "create it, or correct the name",
            missing_severity(lookup, "Topology"),
        )


@lint_rule(
    "flavor-without-nodes",
    kinds=("ResourceFlavor",),
    severity=Severity.WARNING,
    title="a flavor that no node matches",
    why="Pods get the flavor's labels as node selector: they are admitted, hold quota and stay "
    "Pending.",
)
def without_nodes(flavor: Object, world: LintInput) -> Iterator[Hit]:
    labels = mapping(flavor, "spec", "nodeLabels")
    if world.sight("Node") is Sight.NONE or not needs_nodes(name_of(flavor), world):
        return
    if labels and not matching_nodes(flavor, world):
        wanted = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        yield Hit(
            "spec.nodeLabels",
            f"no node has the labels {wanted}",
            "label the nodes, or correct the labels; nothing to do if an autoscaler adds them",
        )


@lint_rule(
    "flavor-taints",
    kinds=("ResourceFlavor",),
    severity=Severity.WARNING,
    title="nodes with taints that the flavor neither tolerates nor names",
    why="Jobs without the toleration are admitted to the flavor, and their pods stay Pending.",
)
def tainted(flavor: Object, world: LintInput) -> Iterator[Hit]:
    if not needs_nodes(name_of(flavor), world):
        return
    nodes = matching_nodes(flavor, world)
    taints = [sorted(uncovered_taints(node, flavor)) for node in nodes]
    tainted = [found for found in taints if found]
    if not tainted:
        return
    some = len(tainted) < len(nodes)
    yield Hit(
        "spec.tolerations",
        f"{len(tainted)} of {len(nodes)} nodes have taints that it does not tolerate: "
        + ", ".join(sorted({taint for found in tainted for taint in found})),
        "add spec.tolerations, or list them in spec.nodeTaints if jobs shall tolerate them",
        Severity.INFO if some else Severity.WARNING,
    )


@lint_rule(
    "flavors-overlap",
    kinds=("ResourceFlavor",),
    severity=Severity.WARNING,
    title="two flavors that count the same nodes",
    why="The same hardware is promised twice: jobs are admitted that find no node.",
)
def overlap(flavor: Object, world: LintInput) -> Iterator[Hit]:
    for other in world.all("ResourceFlavor"):
        if name_of(other) <= name_of(flavor):
            continue
        shared = _resources(flavor, world) & _resources(other, world)
        both = _nodes_of_both(flavor, other, world)
        if shared and both:
            yield Hit(
                "spec.nodeLabels",
                f'{both} match flavor "{name_of(other)}" too, and both have quota for '
                + ", ".join(sorted(shared)),
                "tell them apart by a label or a taint",
            )


def _resources(flavor: Object, world: LintInput) -> set[str]:
    queues = world.queues_by_flavor.get(name_of(flavor), ())
    return {q.resource for queue in queues for q in quotas_of(queue) if q.flavor == name_of(flavor)}


def _nodes_of_both(flavor: Object, other: Object, world: LintInput) -> str:
    ours, theirs = (mapping(f, "spec") for f in (flavor, other))
    if list(items(ours.get("nodeTaints"))) != list(items(theirs.get("nodeTaints"))):
        return ""
    if world.sight("Node") is not Sight.NONE:
        same = [n for n in matching_nodes(flavor, world) if n in matching_nodes(other, world)]
        return f"{len(same)} of its nodes" if same else ""
    mine, others = (mapping(spec, "nodeLabels").items() for spec in (ours, theirs))
    return "all of its nodes" if mine <= others or others <= mine else ""


@lint_rule(
    "topology-labels",
    kinds=("Topology",),
    severity=Severity.WARNING,
    title="nodes that lack the label of a topology level",
    why="Topology-aware scheduling does not see a node that lacks one of the labels: its capacity "
    "is not used.",
)
def levels(topology: Object, world: LintInput) -> Iterator[Hit]:
    name = name_of(topology)
    flavors = [
        flavor
        for flavor in world.all("ResourceFlavor")
        if mapping(flavor, "spec").get("topologyName") == name
    ]
    nodes = {name_of(n): n for flavor in flavors for n in matching_nodes(flavor, world)}
    for i, level in items(mapping(topology, "spec").get("levels")):
        label = text(level.get("nodeLabel"))
        without = sorted(n for n, node in nodes.items() if label not in labels_of(node))
        if without:
            yield Hit(
                f"spec.levels[{i}].nodeLabel",
                f'{len(without)} of {len(nodes)} nodes lack the label "{label}", such as '
                f'"{without[0]}"',
                "label the nodes",
                Severity.ERROR if len(without) == len(nodes) else None,
            )


LOCAL = (missing, topology_missing)
WORLD = (without_nodes, tainted, overlap, levels)
