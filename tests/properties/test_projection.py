"""Projection over random declarations: done once it is done, and nothing of others is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.names import PROJECTION_FIELD_MANAGER
from multiqueue.projection.desired import build_desired
from multiqueue.projection.differences import WHOLE, find_differences
from multiqueue.projection.fleet import FleetConfiguration, FleetWorker, Item, ServingQueue
from multiqueue.projection.in_use import Key, key_of
from multiqueue.projection.plan import Options, SyncAction, SyncPlan, make_plan, owner_of
from tests.unit.lint.objects import Json, cluster_queue, flavor, local_queue, namespace, priority
from tests.unit.projection.objects import MANAGER, ORIGIN, seen

Cluster = dict[Key, Json]
FLAVORS = ("f", "g")


# ------------------------------------------------------------------ what is declared


@st.composite
def declarations(draw: st.DrawFn) -> tuple[list[Json], FleetConfiguration]:
    """A manager's objects and its fleet file."""
    classes = draw(st.dictionaries(st.sampled_from(["high", "low"]), st.integers(0, 3)))
    labels = draw(st.dictionaries(st.sampled_from(["gpu", "zone"]), st.sampled_from("ab")))
    here = [o for o in MANAGER if o["kind"] not in {"ResourceFlavor", "WorkloadPriorityClass"}]
    here += [priority(name, value) for name, value in classes.items()]
    here += [flavor(name, nodeLabels=labels) for name in FLAVORS]
    names = draw(st.lists(st.sampled_from(["all", "more"]), unique=True))
    queues = [
        ServingQueue(name=name, serves=() if i == 0 else ("other",), spec=draw(specs()))
        for i, name in enumerate(names)
    ]
    listed = draw(st.lists(st.sampled_from(FLAVORS), unique=True))
    toleration = {"key": "gpu", "operator": "Exists"}
    flavors = tuple(Item(name=name, spec={"tolerations": [toleration]}) for name in listed)
    worker = FleetWorker(name="w", flavors=flavors, cluster_queues=tuple(queues))
    return here, FleetConfiguration(workers=(worker,))


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    quota = {"name": "cpu", "nominalQuota": draw(st.sampled_from(["1", "2", "1000m", 2]))}
    used = draw(st.sampled_from(FLAVORS))
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": used, "resources": [quota]}]}]
    optional = {
        "cohortName": "c",
        "queueingStrategy": "StrictFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]},
    }
    chosen = draw(st.lists(st.sampled_from(sorted(optional)), unique=True))
    return {"resourceGroups": groups, **{name: optional[name] for name in chosen}}


FOREIGN = st.lists(
    st.sampled_from(
        [
            flavor("f", nodeLabels={"gpu": "theirs"}),
            priority("high", 99),
            cluster_queue("all", flavor="theirs"),
            local_queue("q", to="theirs"),
            namespace("n"),
            flavor("theirs"),
        ]
    ),
    unique_by=lambda obj: str(obj["metadata"]["name"]) + obj["kind"],
)


# ------------------------------------------------------------------ a server that applies


def carry_out(there: Cluster, made: SyncPlan) -> Cluster:
    """What server-side apply leaves, where no other manager stands in the way."""
    after = dict(there)
    for step in made.steps:
        key = key_of(step.obj)
        if step.action is SyncAction.DELETE:
            del after[key]
            continue
        applied = {k: v for k, v in step.obj.items() if k not in {"apiVersion", "kind"}}
        fields = owned(applied)
        before = after.get(key, {"metadata": {}})
        former = next(iter(before["metadata"].get("managedFields", ())), {}).get("fieldsV1", {})
        merged = merge(without(before, former), step.obj)
        entry = {"manager": PROJECTION_FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
        merged["metadata"]["managedFields"] = [entry]
        after[key] = merged
    return after


def owned(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"f:{name}": owned(child) if isinstance(child, dict) and name not in WHOLE else {}
        for name, child in value.items()
        if name not in {"name", "namespace"} or not isinstance(child, str)
    }


def without(value: Any, fields: Mapping[str, Any]) -> Any:
    """The object without the fields that were applied before; they are applied anew or gone."""
    if not isinstance(value, dict) or not fields:
        return value
    result = {}
    for name, child in value.items():
        below = fields.get(f"f:{name}")
        if below is None:
            result[name] = child
        elif below and isinstance(child, dict) and (rest := without(child, below)):
            result[name] = rest
    return result


def merge(old: Any, new: Any, key: str = "") -> Any:
    if not (isinstance(old, dict) and isinstance(new, dict)) or key in WHOLE:
        return new
    return old | {name: merge(old.get(name), value, name) for name, value in new.items()}


def plan(there: Cluster, declared: tuple[list[Json], FleetConfiguration], **more: bool) -> SyncPlan:
    here, fleet = declared
    world = seen(*there.values())
    desired = build_desired("w", manager=seen(*here), fleet=fleet, there=world, origin=ORIGIN)
    return make_plan(desired, world, Options(origin=ORIGIN, **more))


def cluster_of(objects: Iterable[Json]) -> Cluster:
    return {key_of(obj): obj for obj in objects}


# ------------------------------------------------------------------ promises


@settings(max_examples=40, deadline=None)
@given(st.lists(declarations(), min_size=1, max_size=3), FOREIGN, st.booleans(), st.booleans())
def test_done_once_is_done_and_others_keep_what_is_theirs(
    history: list[tuple[list[Json], FleetConfiguration]],
    foreign: list[Json],
    force: bool,
    prune: bool,
) -> None:
    there = cluster_of(foreign)
    for declared in history:
        made = plan(there, declared, force=force, prune=prune)
        after = carry_out(there, made)
        again = plan(after, declared, force=force, prune=prune)
        assert again.steps == ()
        assert {key_of(h.obj) for h in again.held} == {key_of(h.obj) for h in made.held}
        changed = {key for key, obj in there.items() if after.get(key) != obj}
        theirs = {key for key in changed if owner_of(there[key]) != ORIGIN}
        if force:
            assert all(key in after for key in theirs)  # taken over, never deleted
        else:
            assert theirs == set()
        left = {key_of(h.obj) for h in again.held} | set(cluster_of(foreign))
        fresh = carry_out({}, plan({}, declared))
        for key in fresh.keys() - left:
            assert find_differences(fresh[key], after[key], is_whole=False) == ()
            assert find_differences(after[key], fresh[key], is_whole=False) == ()
        there = after


@settings(max_examples=40, deadline=None)
@given(declarations(), declarations())
def test_what_is_declared_no_longer_is_pruned_with_nothing_left_dangling(
    first: tuple[list[Json], FleetConfiguration], second: tuple[list[Json], FleetConfiguration]
) -> None:
    there = carry_out({}, plan({}, first))
    after = carry_out(there, plan(there, second, prune=True))
    names = {kind: {n for k, _, n in after if k == kind} for kind in ("ResourceFlavor",)}
    for key, obj in after.items():
        if key[0] == "ClusterQueue":
            for group in obj["spec"]["resourceGroups"]:
                used = {f["name"] for f in group["flavors"]}
                assert used <= names["ResourceFlavor"]
