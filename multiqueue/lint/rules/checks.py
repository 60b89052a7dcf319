"""Rules about AdmissionChecks and the worker clusters behind them."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.names import (
    GROUP,
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_REQUEST_CONTROLLER,
)
from multiqueue.api.validation.access import Object, mapping, strings, text
from multiqueue.lint.finding import Severity
from multiqueue.lint.quotas import absent, checks_of, missing_severity
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import LintInput, Lookup, name_of

_PARAMETERS = {
    MULTIKUEUE_CONTROLLER: "MultiKueueConfig",
    PROVISIONING_REQUEST_CONTROLLER: "ProvisioningRequestConfig",
}
_FILES = "/etc/multikueue/kubeconfigs/"


@lint_rule(
    "check-missing",
    kinds=("ClusterQueue",),
    severity=Severity.ERROR,
    title="an AdmissionCheck that does not exist",
    why="The ClusterQueue is inactive (AdmissionCheckNotFound) until it exists.",
)
def check_missing(queue: Object, lookup: Lookup) -> Iterator[Hit]:
    for path, rule in checks_of(queue):
        name = text(rule.get("name"))
        if name and lookup.get("AdmissionCheck", name) is None:
            yield Hit(
                f"{path}.name",
                absent(lookup, "AdmissionCheck", name),
                "create it, or correct the name",
                missing_severity(lookup, "AdmissionCheck"),
            )


@lint_rule(
    "multikueue-check-combination",
    kinds=("ClusterQueue",),
    severity=Severity.ERROR,
    title="a MultiKueue check together with what it excludes",
    why="The ClusterQueue is inactive with such a combination.",
)
def multikueue_alone(queue: Object, lookup: Lookup) -> Iterator[Hit]:
    by_controller: dict[str, list[tuple[str, Object]]] = {}
    for path, rule in checks_of(queue):
        check = lookup.get("AdmissionCheck", text(rule.get("name")))
        name = text(mapping(check, "spec").get("controllerName"))
        by_controller.setdefault(name, []).append((path, rule))
    remote = by_controller.get(MULTIKUEUE_CONTROLLER, [])
    if len(remote) > 1:
        yield Hit(remote[1][0], f"is the second of {len(remote)} MultiKueue checks", "keep one")
    for path, rule in remote:
        if list(strings(rule.get("onFlavors"))):
            what = "a MultiKueue check cannot hold for single flavors"
            yield Hit(f"{path}.onFlavors", what, "remove it")
    if remote and (other := by_controller.get(PROVISIONING_REQUEST_CONTROLLER)):
        what = "nodes are provisioned where a job runs, which is on the workers here"
        yield Hit(other[0][0], what, "move this check to the ClusterQueues of the workers")


@lint_rule(
    "check-controller",
    kinds=("AdmissionCheck",),
    severity=Severity.INFO,
    title="an AdmissionCheck of another controller",
    why="A check that nobody answers stays Pending, and so does every job that needs it.",
)
def controller(check: Object, _: Lookup) -> Iterator[Hit]:
    name = text(mapping(check, "spec").get("controllerName"))
    if name and name not in _PARAMETERS:
        yield Hit(
            "spec.controllerName",
            f'"{name}" is none of ours: {" or ".join(_PARAMETERS)}',
            "correct the name, or make sure that its controller is installed",
        )


@lint_rule(
    "check-parameters",
    kinds=("AdmissionCheck",),
    severity=Severity.ERROR,
    title="an AdmissionCheck without usable parameters",
    why="The check is inactive, and with it every ClusterQueue that uses it.",
)
def parameters(check: Object, lookup: Lookup) -> Iterator[Hit]:
    spec = mapping(check, "spec")
    kind = _PARAMETERS.get(text(spec.get("controllerName")))
    if kind is None:
        return
    parameters = mapping(spec, "parameters")
    name = text(parameters.get("name"))
    if (parameters.get("apiGroup"), parameters.get("kind")) != (GROUP, kind) or not name:
        yield Hit(
            "spec.parameters",
            f"must name a {kind} of {GROUP}",
            f"set apiGroup {GROUP}, kind {kind} and its name",
        )
    elif lookup.get(kind, name) is None:
        yield Hit(
            "spec.parameters.name",
            absent(lookup, kind, name),
            "create it, or correct the name",
            missing_severity(lookup, kind),
        )


@lint_rule(
    "multikueue-block-admission",
    kinds=("AdmissionCheck",),
    severity=Severity.WARNING,
    title="blockAdmission on a manager of workers",
    why="Each admission then waits until the pods of the one before are ready on their worker, "
    "image pulls and a lost connection included: one slow worker stops all.",
)
def block_admission(check: Object, lookup: Lookup) -> Iterator[Hit]:
    waiting = lookup.config.wait_for_pods_ready if lookup.config else None
    remote = mapping(check, "spec").get("controllerName") == MULTIKUEUE_CONTROLLER
    if remote and waiting is not None and waiting.block_admission:
        yield Hit(
            "",
            "the manager's configuration has waitForPodsReady.blockAdmission: true",
            "set blockAdmission to false there, and on the workers if at all",
        )


@lint_rule(
    "provisioning-class-twice",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="two checks that ask for the same nodes",
    why="Each job asks the autoscaler twice, and may be given, and pay for, nodes twice.",
)
def same_class(queue: Object, world: LintInput) -> Iterator[Hit]:
    seen: dict[tuple[str, str], str] = {}
    for path, rule in checks_of(queue):
        name = text(rule.get("name"))
        spec = mapping(world.get("AdmissionCheck", name), "spec")
        config = world.get(
            "ProvisioningRequestConfig", text(mapping(spec, "parameters").get("name"))
        )
        if config is None or spec.get("controllerName") != PROVISIONING_REQUEST_CONTROLLER:
            continue
        class_name = text(mapping(config, "spec").get("provisioningClassName"))
        for flavor in list(strings(rule.get("onFlavors"))) or [""]:
            first = seen.setdefault((class_name, flavor), name)
            if first != name:
                yield Hit(
                    f"{path}.name",
                    f'asks class "{class_name}" for nodes, as check "{first}" does',
                    "keep one of them, or give each flavors of its own (onFlavors)",
                )


@lint_rule(
    "worker-missing",
    kinds=("MultiKueueConfig",),
    severity=Severity.ERROR,
    title="a worker that does not exist",
    why="Nothing is sent there; with no usable worker the check is inactive (NoUsableClusters).",
)
def unknown_workers(config: Object, lookup: Lookup) -> Iterator[Hit]:
    for i, name in enumerate(strings(mapping(config, "spec").get("clusters"))):
        if lookup.get("MultiKueueCluster", name) is None:
            yield Hit(
                f"spec.clusters[{i}]",
                absent(lookup, "MultiKueueCluster", name),
                "create it, or correct the name",
                missing_severity(lookup, "MultiKueueCluster"),
            )


@lint_rule(
    "worker-kubeconfig-path",
    kinds=("MultiKueueCluster",),
    severity=Severity.ERROR,
    title="a kubeconfig file in a place where none is read",
    why="Whoever may create a MultiKueueCluster must not choose which files the manager reads.",
)
def kubeconfig_path(cluster: Object, _: Lookup) -> Iterator[Hit]:
    source = mapping(cluster, "spec", "clusterSource", "kubeConfig")
    location = text(source.get("location"))
    if source.get("locationType") == "Path" and not location.startswith(_FILES):
        yield Hit(
            "spec.clusterSource.kubeConfig.location",
            f'"{location}" is not below {_FILES}',
            f"mount the file below {_FILES}, or keep the kubeconfig in a Secret",
        )


@lint_rule(
    "worker-kubeconfig",
    kinds=("MultiKueueCluster",),
    severity=Severity.ERROR,
    title="a kubeconfig that is missing, broken or not safe to use",
    why="The manager refuses it, and the worker stays disconnected (BadKubeConfig, "
    "InsecureKubeConfig).",
)
def kubeconfig(cluster: Object, world: LintInput) -> Iterator[Hit]:
    name = name_of(cluster)
    if problem := world.kubeconfig_problems.get(name):
        yield Hit("spec.clusterSource.kubeConfig", problem, "put a usable kubeconfig there")
    elif problem := world.worker_problems.get(name):
        todo = "see whether it runs, and who may read it; or pass --worker NAME=KUBECONFIG"
        yield Hit("", f"its cluster was not looked at: {problem}", todo, Severity.INFO)


@lint_rule(
    "worker-unused",
    kinds=("MultiKueueCluster",),
    severity=Severity.INFO,
    title="a worker that no MultiKueueConfig names",
    why="No job is ever sent there.",
)
def unused(cluster: Object, world: LintInput) -> Iterator[Hit]:
    configs = world.all("MultiKueueConfig")
    if any(name_of(cluster) in strings(mapping(c, "spec").get("clusters")) for c in configs):
        return
    yield Hit(
        "", "no MultiKueueConfig names it", "add it to spec.clusters of one, or delete the cluster"
    )


LOCAL = (
    check_missing,
    multikueue_alone,
    controller,
    parameters,
    block_admission,
    unknown_workers,
    kubeconfig_path,
)
WORLD = (same_class, kubeconfig, unused)
