"""Whether a cluster can be taken over, and what will behave differently. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.config import Configuration, Gate
from multiqueue.api.crd.kinds import KINDS
from multiqueue.api.job_kinds import find_enabled, find_job_kind
from multiqueue.api.names import (
    DEFAULT_NAMESPACE,
    GROUP,
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_REQUEST_CONTROLLER,
    RESOURCE_IN_USE,
)
from multiqueue.api.validation.access import has_condition, items, mapping, strings, text
from multiqueue.cli.migration.differences import find_differences, has_slices
from multiqueue.cli.migration.findings import MigrationFinding, Weight, blocks, tells, warns
from multiqueue.cli.migration.installation import Installation, is_ours, key_of, name_of
from multiqueue.cli.migration.translation import newest_known, translate

SERVED = frozenset({"v1beta1", "v1beta2"})
BUILT_IN_CONTROLLERS = frozenset({MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER})
HELM_SELECTOR = ("app.kubernetes.io/instance", "app.kubernetes.io/name", "control-plane")
PLAIN_SELECTOR = ("control-plane",)
_VALUES: Mapping[str, tuple[Any, str]] = {
    "nameOverride": ("kueue", "objects are always named kueue-…; leave it empty"),
    "fullnameOverride": ("kueue", "objects are always named kueue-…; leave it empty"),
    "mutatingWebhook.reinvocationPolicy": ("Never", "the webhooks always have Never"),
}
"""Values of upstream's chart that ours refuses unless they are empty or have this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The result of the checks.

    Attributes:
        wire: The configuration for this program; empty if there is none.
        facts: What is there, in numbers.
    """

    findings: tuple[MigrationFinding, ...]
    wire: Mapping[str, Any]
    facts: Mapping[str, Any]

    @property
    def blocking(self) -> tuple[MigrationFinding, ...]:
        """The findings that must be solved before anything is changed."""
        return tuple(each for each in self.findings if each.weight is Weight.BLOCKS)


def check_installation(found: Installation) -> Preflight:
    """Run all checks."""
    translation = translate(found)
    kinds = count_kinds(found)
    findings = [each for check in _CHECKS for each in check(found)]
    findings.extend(translation.findings)
    if translation.config is not None:
        findings.extend(_job_kinds(found, translation.config, kinds))
        findings.extend(_gates_in_use(found, translation.config))
        enabled = find_enabled(translation.config.integrations.frameworks)
        used = kinds if found.is_live else {kind.kind: 0 for kind in enabled}
        findings.extend(find_differences(found, translation.config, used))
    facts = {
        "version": ".".join(map(str, found.version or ())) or None,
        "installedBy": "helm" if found.release else "manifests",
        "leader": found.holder or None,
        "workloads": count_workloads(found),
        "kinds": dict(kinds),
    }
    order = list(Weight)
    findings.sort(key=lambda each: order.index(each.weight))
    return Preflight(findings=tuple(findings), wire=translation.wire, facts=facts)


def count_kinds(found: Installation) -> Mapping[str, int]:
    """Return the numbers of Workloads by the kind of their job."""
    return Counter(kind for kind, _ in map(_owner, found.of("Workload")) if kind)


def count_workloads(found: Installation) -> Mapping[str, int]:
    """Return the numbers of Workloads that run, wait and are finished."""
    counts = {"running": 0, "waiting": 0, "finished": 0}
    for workload in found.of("Workload"):
        is_running = has_condition(workload, "Admitted")
        phase = "running" if is_running else "waiting"
        counts["finished" if has_condition(workload, "Finished") else phase] += 1
    return counts


def _group(obj: Mapping[str, Any]) -> str:
    return text(obj.get("apiVersion")).rpartition("/")[0]


def _owner(workload: Mapping[str, Any]) -> tuple[str, str]:
    """Return kind and apiVersion of a Workload's job; empty if it has none."""
    for _, owner in items(mapping(workload, "metadata").get("ownerReferences")):
        if owner.get("kind") != "Workload":
            return text(owner.get("kind")), text(owner.get("apiVersion"))
    return "", ""


def _manager(found: Installation) -> Iterator[MigrationFinding]:
    version, newest = found.version, newest_known()
    told = ".".join(map(str, newest))
    if version is not None and version > newest:
        yield blocks(
            "version",
            found.image,
            f"is newer than Kueue {told}, the newest version that this program knows",
            "use a newer release of multiqueue",
        )
    elif version is None and found.deployment is not None:
        yield warns(
            "version",
            found.image,
            f"does not say its version; the gates are taken for those of {told}",
        )
    if not found.is_live:
        return
    if found.deployment is None:
        yield blocks(
            "manager",
            "Deployment kueue-controller-manager",
            "is missing in the system namespace, so this command cannot stop upstream's manager",
            "name the namespace with --system-namespace",
        )
        return
    if is_ours(found.deployment):
        return
    namespace = mapping(found.deployment, "metadata").get("namespace")
    if not found.release and namespace != DEFAULT_NAMESPACE:
        yield blocks(
            "manager",
            key_of(found.deployment),
            f"is not in {DEFAULT_NAMESPACE}, where the manifests of config/ install",
            "have helm install upstream there first, or use an overlay of config/default by hand",
        )
    labels = mapping(found.deployment, "spec", "selector", "matchLabels")
    wanted = HELM_SELECTOR if found.release else PLAIN_SELECTOR
    if tuple(sorted(labels)) != wanted:
        yield blocks(
            "manager",
            key_of(found.deployment),
            f"selects its pods by {', '.join(sorted(labels))}, and the new one by "
            f"{', '.join(wanted)}; a selector cannot be changed",
            "kubectl delete deployment kueue-controller-manager, and apply it with that selector",
        )


def _kinds_of_kueue(found: Installation) -> Iterator[MigrationFinding]:
    known = {kind.kind for kind in KINDS}
    of_kueue = (obj for obj in found.objects if _group(obj) == GROUP)
    for (kind, api_version), count in Counter(
        (text(obj.get("kind")), text(obj.get("apiVersion"))) for obj in of_kueue
    ).items():
        version = api_version.rpartition("/")[2]
        if kind not in known:
            what = f"is no kind that this program knows; {count} objects of it exist"
            yield blocks("versions", kind, what, "delete them, or stay with upstream")
        elif version not in SERVED:
            what = f"{count} objects are in {version}, which is not served here"
            yield blocks("versions", kind, what, "write them in v1beta2")


def _definitions(found: Installation) -> Iterator[MigrationFinding]:
    for crd in found.of("CustomResourceDefinition"):
        name, stored = name_of(crd), set(strings(mapping(crd, "status").get("storedVersions")))
        if text(mapping(crd, "spec").get("group")) != GROUP:
            continue
        if old := sorted(stored - SERVED):
            yield blocks(
                "versions",
                name,
                f"objects may be stored in {', '.join(old)}, which no CRD of ours serves",
                "write each object again (kubectl get -o yaml | kubectl replace -f -), then take "
                "the version out of status.storedVersions",
            )
        elif "v1beta1" in stored:
            what = "objects may be stored in v1beta1; they are converted when they are read"
            yield tells("versions", name, what)


def _webhooks(found: Installation) -> Iterator[MigrationFinding]:
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for configuration in found.of(kind):
            hooks = [hook for _, hook in items(configuration.get("webhooks"))]
            required = sum(hook.get("failurePolicy") != "Ignore" for hook in hooks)
            yield tells(
                "webhooks",
                key_of(configuration),
                f"{len(hooks)} webhooks, {required} of which must answer: while no manager runs, "
                "what they are asked about is refused, and nothing runs without quota",
            )
            annotations = mapping(configuration, "metadata", "annotations")
            if "cert-manager.io/inject-ca-from" in annotations:
                what = "cert-manager makes the certificates; the take-over keeps it so"
                yield tells("webhooks", key_of(configuration), what)


def _finalizers(found: Installation) -> Iterator[MigrationFinding]:
    for obj in found.objects:
        if _group(obj) != GROUP:
            continue
        metadata = mapping(obj, "metadata")
        finalizers = list(strings(metadata.get("finalizers")))
        if metadata.get("deletionTimestamp"):
            what = f"is being deleted and waits for {', '.join(finalizers) or 'nothing'}"
            yield warns("finalizers", key_of(obj), what)
        if foreign := [each for each in finalizers if not each.startswith(GROUP)]:
            what = f"has the finalizer {', '.join(foreign)} of somebody else, who must remove it"
            yield warns("finalizers", key_of(obj), what)
        elif unknown := sorted({*finalizers} - {RESOURCE_IN_USE, f"{GROUP}/managed"}):
            yield warns("finalizers", key_of(obj), f"has the unknown {', '.join(unknown)}")


def _admission_checks(found: Installation) -> Iterator[MigrationFinding]:
    for check in found.of("AdmissionCheck"):
        controller = text(mapping(check, "spec").get("controllerName"))
        if controller not in BUILT_IN_CONTROLLERS:
            what = f"is answered by {controller}, which must go on running; it is left alone"
            yield tells("admissionChecks", key_of(check), what)
        if found.is_live and not has_condition(check, "Active"):
            what = "is not Active now, and will not be afterwards"
            yield warns("admissionChecks", key_of(check), what)


def _dispatched(found: Installation) -> Iterator[MigrationFinding]:
    sent = [w for w in found.of("Workload") if mapping(w, "status").get("clusterName")]
    if count := sum(not has_condition(each, "Finished") for each in sent):
        what = "were sent to workers by upstream; try such a take-over on a test cluster first"
        yield warns("dispatched", "MultiKueue", f"{count} open Workloads {what}")


def _chart_values(found: Installation) -> Iterator[MigrationFinding]:
    for path, (allowed, why) in _VALUES.items():
        *parents, last = path.split(".")
        value = mapping(found.values, *parents).get(last)
        if value not in (None, "", allowed):
            yield blocks("values", path, f"is {value!r}, which our chart refuses: {why}")
    if found.values.get("enableKueueViz"):
        yield warns("values", "enableKueueViz", "KueueViz is not part of our chart")


def _job_kinds(
    found: Installation, config: Configuration, kinds: Mapping[str, int]
) -> Iterator[MigrationFinding]:
    integrations = config.integrations
    enabled = {kind.kind for kind in find_enabled(integrations.frameworks)}
    external = {name.partition(".")[0] for name in integrations.external_frameworks}
    declared = {
        text(mapping(obj, "spec", "names").get("kind")) or name_of(obj)
        for obj in found.of("JobKind")
    }
    versions = dict(map(_owner, found.of("Workload")))
    for kind, count in sorted(kinds.items()):
        row = find_job_kind(versions[kind], kind)
        told = f"{kind} ({versions[kind]})"
        if row is None and kind not in external | declared:
            yield blocks(
                "kinds",
                told,
                f"{count} Workloads belong to this kind, which this program cannot queue",
                "declare it with a JobKind (docs/job-kinds.md), or let these jobs end first",
            )
        elif row is not None and row.gate and not config.gates.enabled(Gate(row.gate)):
            what = f"{count} Workloads belong to it, and its gate {row.gate} is off"
            yield blocks("kinds", told, what, f"set featureGates.{row.gate}: true")
        elif row is not None and kind not in enabled | external:
            what = f"{count} Workloads belong to it, and integrations.frameworks does not name it"
            yield blocks("kinds", told, what, f"add {row.framework or kind} to it")
        else:
            yield tells("kinds", told, f"{count} Workloads")


def _gates_in_use(found: Installation, config: Configuration) -> Iterator[MigrationFinding]:
    """Yield the gates that are off although Workloads got what they have by them."""
    for gate, is_used, what in _USES:
        count = sum(map(is_used, found.of("Workload")))
        if count and not config.gates.enabled(gate):
            todo = f"set featureGates.{gate}: true"
            yield blocks("gates", f"featureGates.{gate}", f"is off, and {count} {what}", todo)


def _has_topology(workload: Mapping[str, Any]) -> bool:
    assigned = items(mapping(workload, "status", "admission").get("podSetAssignments"))
    return any("topologyAssignment" in each for _, each in assigned)


_CHECKS: tuple[Callable[[Installation], Iterator[MigrationFinding]], ...] = (
    _manager,
    _kinds_of_kueue,
    _definitions,
    _webhooks,
    _finalizers,
    _admission_checks,
    _dispatched,
    _chart_values,
)
_USES: tuple[tuple[Gate, Callable[[Mapping[str, Any]], bool], str], ...] = (
    (Gate.TOPOLOGY_AWARE_SCHEDULING, _has_topology, "Workloads have places in a topology"),
    (Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES, has_slices, "Workloads are slices of elastic jobs"),
)
