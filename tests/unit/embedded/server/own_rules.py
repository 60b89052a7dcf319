"""The rules of our own kinds, said once more in Python."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.unit.embedded.server.own_toleration_rules import EFFECTS, TOLERATIONS, tolerations

Json = Any
Holds = Callable[[Json, Json], bool]

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, kw_only=True)
class OwnRule:
    """One rule: where it stands, what it says, and values to ask it about."""

    kind: str
    path: str
    message: str
    values: st.SearchStrategy[Json]
    holds: Holds
    """(value, old value or None) -> whether the rule is content."""
    changes: bool = False
    """It compares with the old value."""
    versions: tuple[str, ...] = ("v1beta1", "v1beta2")


NEWER = ("v1beta2",)
OLDER = ("v1beta1",)
words = st.sampled_from(["a", "b", "c"])
few = st.integers(0, 3)


def some(**fields: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """An object with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def lists(items: st.SearchStrategy[Json], **bounds: int) -> st.SearchStrategy[Json]:
    return st.lists(items, **{"max_size": 3, **bounds})


def same(value: Json, old: Json) -> bool:
    return bool(value == old)


def needs(field: str, other: str) -> Holds:
    """With a field, there must be another one."""
    return lambda value, _: field not in value or other in value


def is_true(workload: Json, condition: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", [])
    return {"type": condition, "status": "True"} in conditions


def reserved(workload: Json) -> bool:
    return is_true(workload, "QuotaReserved")


def stays_while(condition: str, field: str) -> Holds:
    """A field of the spec stays while a condition is and was true."""

    def holds(value: Json, old: Json) -> bool:
        before, after = (each.get("spec", {}).get(field) for each in (old, value))
        return not (is_true(value, condition) and is_true(old, condition)) or before == after

    return holds


def class_stays(*path: str, only: Json = None) -> Holds:
    """With quota before, a part of the priority class stays; of classes with these fields."""

    def holds(value: Json, old: Json) -> bool:
        before, after = (each.get("spec", {}) for each in (old, value))
        if not reserved(old):
            return True
        for part in path[:-1]:
            if part not in before or part not in after:
                return True
            before, after = before[part], after[part]
        if any(after.get(field) != wanted for field, wanted in (only or {}).items()):
            return True
        return bool(before.get(path[-1]) == after.get(path[-1]))

    return holds


def is_set_or_not(value: Json, old: Json) -> bool:
    sets = {"priorityClassRef" in each.get("spec", {}) for each in (value, old)}
    return not reserved(old) or len(sets) == 1


def old_class_stays(*fields: str, foreign: bool = False) -> Holds:
    """With quota before, fields of the old version stay if they are set before and after."""

    def holds(value: Json, old: Json) -> bool:
        before, after = (each.get("spec", {}) for each in (old, value))
        known = all(field in each for field in fields for each in (before, after))
        own = after.get("priorityClassSource") == "kueue.x-k8s.io/workloadpriorityclass"
        if not reserved(old) or not known or (foreign and own):
            return True
        return bool(before[fields[-1]] == after[fields[-1]])

    return holds


def assignments_fit(value: Json, _old: Json) -> bool:
    status = value.get("status", {})
    if not reserved(value) or "admission" not in status:
        return True
    pod_sets = value.get("spec", {}).get("podSets")
    return pod_sets is not None and len(pod_sets) == len(status["admission"]["podSetAssignments"])


def levels_stay(value: Json, old: Json) -> bool:
    lowest = {levels[-1]["nodeLabel"] for levels in (value, old)}
    return bool(value == old) or lowest == {HOSTNAME}


def hostname_is_lowest(value: Json, _old: Json) -> bool:
    return all(level["nodeLabel"] != HOSTNAME for level in value[:-1])


def one_of(*fields: str) -> Holds:
    return lambda value, _old: sum(field in value for field in fields) == 1


def borrowing_fits(value: Json, _old: Json) -> bool:
    borrows = value.get("borrowWithinCohort", {}).get("policy", "Never") not in {"", "Never"}
    return not borrows or value.get("reclaimWithinCohort", "Never") not in {"", "Never"}


def of_each(holds: Callable[[Json], bool]) -> Holds:
    return lambda value, _old: all(holds(item) for item in value)


groups = st.fixed_dictionaries(
    {
        "coveredResources": lists(words),
        "flavors": lists(st.fixed_dictionaries({"resources": lists(st.just({"name": "x"}))})),
    }
)
flavor_specs = some(
    topologyName=words,
    nodeLabels=st.dictionaries(words, words, max_size=2),
    tolerations=lists(st.just({"operator": "Exists"})),
)
levels = lists(
    st.sampled_from([HOSTNAME, "a", "b"]).map(lambda label: {"nodeLabel": label}), min_size=1
)
conditions = lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["QuotaReserved", "Admitted"]),
            "status": st.sampled_from(["True", "False"]),
        }
    )
)
workloads = some(
    spec=some(
        podSets=lists(st.just({"name": "main", "count": 1})),
        queueName=words,
        maximumExecutionTimeSeconds=few,
    ),
    status=some(
        conditions=conditions,
        admission=st.fixed_dictionaries({"podSetAssignments": lists(st.just({"name": "main"}))}),
    ),
)
OWN_CLASS = "kueue.x-k8s.io/workloadpriorityclass"
classes = st.fixed_dictionaries(
    {
        "group": st.sampled_from(["kueue.x-k8s.io", "scheduling.k8s.io"]),
        "kind": st.sampled_from(["WorkloadPriorityClass", "PriorityClass"]),
        "name": words,
    }
)
had_quota = st.just({"conditions": [{"type": "QuotaReserved", "status": "True"}]})
classed = some(spec=some(priorityClassRef=classes), status=had_quota)
once_classed = some(
    spec=some(
        priorityClassSource=st.sampled_from([OWN_CLASS, "scheduling.k8s.io/priorityclass"]),
        priorityClassName=words,
    ),
    status=had_quota,
)
statuses = some(clusterName=words, nominatedClusterNames=lists(words))
numbers = some(universal=few, individual=lists(few))
level_values = some(universal=words, individual=some(roots=lists(words)).filter(bool))
slices = st.fixed_dictionaries(
    {"domainCount": few, "valuesPerLevel": lists(level_values), "podCounts": numbers}
)
ASSIGNMENT = "status.admission.podSetAssignments[].topologyAssignment"


def values_fit(value: Json, _old: Json) -> bool:
    return all(
        "universal" in each
        or ("individual" in each and len(each["individual"]["roots"]) == value["domainCount"])
        for each in value["valuesPerLevel"]
    )


def counts_fit(value: Json, _old: Json) -> bool:
    counts = value["podCounts"]
    individual = counts.get("individual")
    return "universal" in counts or (
        individual is not None and len(individual) == value["domainCount"]
    )


OWN_RULES: tuple[OwnRule, ...] = (
    *(
        OwnRule(
            kind=kind,
            path=path,
            message="field is immutable",
            values=words,
            holds=same,
            changes=True,
        )
        for kind, path in (
            ("AdmissionCheck", "spec.controllerName"),
            ("LocalQueue", "spec.clusterQueue"),
        )
    ),
    *(
        OwnRule(
            kind=kind,
            path="spec.resourceGroups[]",
            message="flavors must have the same number of resources as the coveredResources",
            values=groups,
            holds=lambda value, _old: all(
                len(flavor["resources"]) == len(value["coveredResources"])
                for flavor in value["flavors"]
            ),
        )
        for kind in ("ClusterQueue", "Cohort")
    ),
    OwnRule(
        kind="ClusterQueue",
        path="spec.flavorFungibility",
        message="preference may only be set when whenCanBorrow and whenCanPreempt are "
        "TryNextFlavor",
        values=st.fixed_dictionaries(
            {
                field: st.sampled_from(["TryNextFlavor", "MayStopSearch"])
                for field in ("whenCanBorrow", "whenCanPreempt")
            },
            optional={"preference": words},
        ),
        holds=lambda value, _old: (
            "preference" not in value
            or value["whenCanBorrow"] == value["whenCanPreempt"] == "TryNextFlavor"
        ),
    ),
    OwnRule(
        kind="ClusterQueue",
        path="spec.preemption",
        message="reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        values=st.fixed_dictionaries(
            {"reclaimWithinCohort": st.sampled_from(["Never", "Any"])},
            optional={
                "borrowWithinCohort": st.fixed_dictionaries(
                    {"policy": st.sampled_from(["Never", "LowerPriority"])}
                )
            },
        ),
        holds=borrowing_fits,
        versions=NEWER,
    ),
    OwnRule(
        kind="ClusterQueue",
        path="spec.preemption",
        message="reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        values=some(
            reclaimWithinCohort=st.sampled_from(["", "Never", "Any"]),
            borrowWithinCohort=some(policy=st.sampled_from(["", "Never", "LowerPriority"])),
        ),
        holds=borrowing_fits,
        versions=OLDER,
    ),
    OwnRule(
        kind="MultiKueueCluster",
        path="spec.clusterSource",
        message="exactly one of kubeConfig and clusterProfileRef is required",
        values=some(kubeConfig=st.just({}), clusterProfileRef=st.just({})),
        holds=one_of("kubeConfig", "clusterProfileRef"),
        versions=NEWER,
    ),
    OwnRule(
        kind="MultiKueueConfig",
        path="spec.clusters",
        message="clusters must be unique",
        values=lists(words),
        holds=lambda value, _old: len(set(value)) == len(value),
        versions=NEWER,
    ),
    OwnRule(
        kind="ResourceFlavor",
        path="spec",
        message="at least one nodeLabel is required when topologyName is set",
        values=flavor_specs,
        holds=lambda value, _old: "topologyName" not in value or bool(value.get("nodeLabels")),
    ),
    OwnRule(
        kind="ResourceFlavor",
        path="spec",
        message="topologyName is immutable once it is set",
        values=flavor_specs,
        holds=lambda value, old: (
            "topologyName" not in old or old["topologyName"] == value.get("topologyName")
        ),
        changes=True,
    ),
    OwnRule(
        kind="ResourceFlavor",
        path="spec.nodeTaints",
        message="supported taint effects: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
        values=lists(st.fixed_dictionaries({"effect": st.sampled_from([*EFFECTS, "Other"])})),
        holds=of_each(lambda taint: taint["effect"] in EFFECTS),
    ),
    *(
        OwnRule(kind=kind, path=path, message=message, values=tolerations, holds=of_each(holds))
        for kind, path in (
            ("ResourceFlavor", "spec.tolerations"),
            ("Workload", "status.admissionChecks[].podSetUpdates[].tolerations"),
        )
        for message, holds in TOLERATIONS.items()
    ),
    OwnRule(
        kind="Topology",
        path="spec.levels",
        message="must be unique",
        values=levels,
        holds=lambda value, _old: len({each["nodeLabel"] for each in value}) == len(value),
    ),
    OwnRule(
        kind="Topology",
        path="spec.levels",
        message="the kubernetes.io/hostname label can only be used at the lowest level of topology",
        values=levels,
        holds=lambda value, old: (
            hostname_is_lowest(value, old) or value[-1]["nodeLabel"] == HOSTNAME
        ),
    ),
    OwnRule(
        kind="Topology",
        path="spec.levels",
        message="levels can only change while kubernetes.io/hostname is the lowest level",
        values=levels,
        holds=levels_stay,
        changes=True,
        versions=NEWER,
    ),
    OwnRule(
        kind="Topology",
        path="spec.levels",
        message="field is immutable",
        values=levels,
        holds=same,
        changes=True,
        versions=OLDER,
    ),
    OwnRule(
        kind="Workload",
        path="",
        message="podSetAssignments must have the same number of podSets as the spec",
        values=workloads,
        holds=assignments_fit,
    ),
    OwnRule(
        kind="Workload",
        path="",
        message="queueName is immutable while workload quota reserved",
        values=workloads,
        holds=stays_while("QuotaReserved", "queueName"),
        changes=True,
    ),
    OwnRule(
        kind="Workload",
        path="",
        message="maximumExecutionTimeSeconds is immutable while workload quota reserved",
        values=workloads,
        holds=stays_while("Admitted", "maximumExecutionTimeSeconds"),
        changes=True,
    ),
    *(
        OwnRule(
            kind="Workload",
            path="",
            message=f"{said} while workload quota reserved",
            values=classed,
            holds=holds,
            changes=True,
            versions=NEWER,
        )
        for said, holds in (
            ("priorityClassRef is immutable", is_set_or_not),
            ("priorityClassRef.group is immutable", class_stays("priorityClassRef", "group")),
            ("priorityClassRef.kind is immutable", class_stays("priorityClassRef", "kind")),
            (
                "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass",
                class_stays("priorityClassRef", "name", only={"kind": "PriorityClass"}),
            ),
        )
    ),
    *(
        OwnRule(
            kind="Workload",
            path="",
            message=message,
            values=once_classed,
            holds=holds,
            changes=True,
            versions=OLDER,
        )
        for message, holds in (
            (
                "priorityClassSource is immutable while workload quota reserved",
                old_class_stays("priorityClassSource"),
            ),
            (
                (
                    "priorityClassName is immutable while workload quota reserved and "
                    f"priorityClassSource is not equal to {OWN_CLASS}"
                ),
                old_class_stays("priorityClassSource", "priorityClassName", foreign=True),
            ),
        )
    ),
    *(
        OwnRule(
            kind="Workload",
            path="spec",
            message=f"priority should not be nil when {field} is set",
            values=some(priority=few, **{field: value}),
            holds=lambda value, _old, field=field: field not in value or "priority" in value,
            versions=versions,
        )
        for field, value, versions in (
            (
                "priorityClassRef",
                st.just({"group": "scheduling.k8s.io", "kind": "PriorityClass"}),
                NEWER,
            ),
            ("priorityClassName", words, OLDER),
        )
    ),
    OwnRule(
        kind="Workload",
        path="spec.priorityClassRef",
        message="kind must be WorkloadPriorityClass in group kueue.x-k8s.io and PriorityClass in "
        "group scheduling.k8s.io",
        values=st.fixed_dictionaries(
            {
                "group": st.sampled_from(["kueue.x-k8s.io", "scheduling.k8s.io"]),
                "kind": st.sampled_from(["WorkloadPriorityClass", "PriorityClass"]),
            }
        ),
        holds=lambda value, _old: (
            (value["group"] == "kueue.x-k8s.io") == (value["kind"] == "WorkloadPriorityClass")
        ),
        versions=NEWER,
    ),
    OwnRule(
        kind="Workload",
        path="spec.podSets[]",
        message="minCount should be positive and less or equal to count",
        values=st.fixed_dictionaries({"count": few}, optional={"minCount": few}),
        holds=lambda value, _old: value.get("minCount", 0) <= value["count"],
    ),
    OwnRule(
        kind="Workload",
        path="status",
        message="clusterName is immutable once it is set",
        values=statuses,
        holds=lambda value, old: (
            len({each["clusterName"] for each in (value, old) if "clusterName" in each}) < 2
        ),
        changes=True,
    ),
    OwnRule(
        kind="Workload",
        path="status",
        message="clusterName and nominatedClusterNames are mutually exclusive",
        values=statuses,
        holds=lambda value, _old: (
            "clusterName" not in value or not value.get("nominatedClusterNames")
        ),
    ),
    OwnRule(
        kind="Workload",
        path=ASSIGNMENT,
        message="valuesPerLevel must have as many elements as levels",
        values=st.fixed_dictionaries({"levels": lists(words), "slices": lists(slices)}),
        holds=lambda value, _old: all(
            len(each["valuesPerLevel"]) == len(value["levels"]) for each in value["slices"]
        ),
        versions=NEWER,
    ),
    OwnRule(
        kind="Workload",
        path=f"{ASSIGNMENT}.slices[]",
        message="each level must have either one universal value or as many values as domainCount",
        values=slices,
        holds=values_fit,
        versions=NEWER,
    ),
    OwnRule(
        kind="Workload",
        path=f"{ASSIGNMENT}.slices[]",
        message="podCounts must be universal or have as many numbers as domainCount",
        values=slices,
        holds=counts_fit,
        versions=NEWER,
    ),
    *(
        OwnRule(
            kind="Workload",
            path=f"{ASSIGNMENT}.slices[].{field}",
            message="exactly one of universal and individual is required",
            values=values,
            holds=one_of("universal", "individual"),
            versions=NEWER,
        )
        for field, values in (("valuesPerLevel[]", level_values), ("podCounts", numbers))
    ),
    *(
        OwnRule(
            kind="DispatchProfile",
            path=f"spec.{who}",
            message="exactly one of dispatcher and profile is required",
            values=some(dispatcher=words, profile=words),
            holds=one_of("dispatcher", "profile"),
            versions=("v1alpha1",),
        )
        for who in ("shadow", "canary")
    ),
    *(
        OwnRule(
            kind="DisruptionPolicy",
            path=path,
            message="window must be between 1m and 168h",
            values=some(window=st.sampled_from(["59s", "1m", "90m", "168h", "168h1s"])),
            holds=lambda value, _: value.get("window", "1m") not in {"59s", "168h1s"},
            versions=("v1alpha1",),
        )
        for path in ("spec.protection", "spec.budgets[]")
    ),
    OwnRule(
        kind="DisruptionPolicy",
        path="spec.budgets[]",
        message="one of maxWorkloads, maxDeviceSeconds and maxLostPercent must be more than 0",
        values=some(maxWorkloads=few, maxDeviceSeconds=few, maxLostPercent=few),
        holds=lambda value, _: any(value.values()),
        versions=("v1alpha1",),
    ),
    OwnRule(
        kind="DisruptionPolicy",
        path="spec.budgets[]",
        message="maxLostPercent needs quota to be a part of; set per to Policy or ClusterQueue",
        values=some(
            maxLostPercent=few,
            per=st.sampled_from(["Policy", "ClusterQueue", "Namespace", "Owner"]),
        ),
        holds=lambda value, _: (
            not value.get("maxLostPercent")
            or value.get("per", "Policy") in {"Policy", "ClusterQueue"}
        ),
        versions=("v1alpha1",),
    ),
    *(
        OwnRule(
            kind="JobKind",
            path="spec.podSets[]",
            message=message,
            values=some(
                template=words,
                templateExpression=words,
                admission=st.just({}),
                forEach=words,
                nameExpression=words,
            ),
            holds=holds,
            versions=("v1alpha1",),
        )
        for message, holds in (
            (
                "exactly one of template and templateExpression is required",
                one_of("template", "templateExpression"),
            ),
            (
                "admission goes with templateExpression; a template has its own fields",
                needs("admission", "templateExpression"),
            ),
            (
                "nameExpression is required with forEach, such as item.name",
                needs("forEach", "nameExpression"),
            ),
        )
    ),
    OwnRule(
        kind="JobKind",
        path="spec",
        message="group, version, kind and plural are immutable; create another JobKind",
        values=st.fixed_dictionaries(
            {"group": words, "version": words, "kind": words, "plural": words}, optional={}
        ),
        holds=same,
        changes=True,
        versions=("v1alpha1",),
    ),
)
