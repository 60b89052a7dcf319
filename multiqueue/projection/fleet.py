"""The fleet file: facts about workers that the manager's own objects do not have.

Above all these are quotas: they describe a worker's hardware, which only its operator knows. Specs
have Kueue's form and stay as written. They are checked here by the same rules as at admission, so
that a mistake is reported before any worker is contacted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import V1BETA2
from multiqueue.api.validation.access import mapping
from multiqueue.api.validation.kinds import RULES
from multiqueue.api.validation.names import check_subdomain
from multiqueue.lib import bounded_yaml
from multiqueue.lib.words import words

API_VERSION, KIND = "config.multiqueue.dev/v1alpha1", "FleetConfiguration"
CONFIG_MAP, CONFIG_MAP_KEY = "multiqueue-fleet", "fleet.yaml"
"""The ConfigMap that may have the fleet file, in the manager's namespace."""
PROJECTED_KINDS = words(
    "Namespace Topology ResourceFlavor WorkloadPriorityClass Cohort ClusterQueue LocalQueue"
)
"""The kinds that can be projected, each after the kinds that it may refer to."""
_Info = msgspec.inspect


class FleetSection(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A part of the file; unknown fields are errors."""


class Item(FleetSection, frozen=True, kw_only=True):
    """An object by name; ``spec`` is its kind's spec, in v1beta2."""

    name: str
    spec: dict[str, Any] = {}


class ServingQueue(Item, frozen=True, kw_only=True):
    """A ClusterQueue of a worker.

    Attributes:
        serves: The manager's ClusterQueues whose LocalQueues lead to this one; empty: all that no
            other one serves.
    """

    serves: tuple[str, ...] = ()


class FleetWorker(FleetSection, frozen=True, kw_only=True):
    """One worker, by the name of its MultiKueueCluster.

    Attributes:
        flavors: ResourceFlavors; their fields override those of the manager's.
        topologies: Topologies; their fields override those of the manager's.
        cohorts: All of the worker's Cohorts; the manager's are about the manager's quotas.
        cluster_queues: The ClusterQueues, with the worker's own quotas.
    """

    name: str
    flavors: tuple[Item, ...] = ()
    topologies: tuple[Item, ...] = ()
    cohorts: tuple[Item, ...] = ()
    cluster_queues: tuple[ServingQueue, ...] = ()


class FleetConfiguration(FleetSection, frozen=True, kw_only=True):
    """The whole file.

    Attributes:
        kinds: The kinds to project; an operator may create namespaces by other means.
    """

    kinds: tuple[str, ...] = PROJECTED_KINDS
    workers: tuple[FleetWorker, ...] = ()

    def worker(self, name: str) -> FleetWorker:
        """Return the section of a worker; an empty one if there is none."""
        return next((w for w in self.workers if w.name == name), FleetWorker(name=name))


class FleetError(ValueError):
    """A fleet file that cannot be used; ``errors`` has one line per problem."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("invalid fleet configuration:\n" + "\n".join(f"  {e}" for e in errors))
        self.errors = tuple(errors)


def load_fleet(content: str) -> FleetConfiguration:
    """Read the YAML (or JSON) of a FleetConfiguration.

    Raises:
        FleetError: lists all problems.
    """
    try:
        raw = bounded_yaml.load(content)
    except bounded_yaml.YamlError as error:
        raise FleetError([f"not YAML: {error}"]) from error
    if not isinstance(raw, dict):
        raise FleetError([f"the file must hold a mapping, not {_type_name(raw)}"])
    if (raw.get("apiVersion"), raw.get("kind")) != (API_VERSION, KIND):
        raise FleetError([f'it must begin with "apiVersion: {API_VERSION}" and "kind: {KIND}"'])
    body = {k: v for k, v in raw.items() if k not in {"apiVersion", "kind"}}
    errors = list(_find_unknown(_Info.type_info(FleetConfiguration), body, ""))
    if errors:
        raise FleetError(errors)
    try:
        fleet = msgspec.convert(body, FleetConfiguration)
    except msgspec.ValidationError as error:
        raise FleetError([_reword(str(error), "")]) from error
    errors = list(_check(fleet))
    if errors:
        raise FleetError(errors)
    return fleet


def _check(fleet: FleetConfiguration) -> Iterator[str]:
    for i, kind in enumerate(fleet.kinds):
        if kind not in PROJECTED_KINDS:
            known = ", ".join(PROJECTED_KINDS)
            yield f'kinds[{i}]: "{kind}" cannot be projected; use {known}'
    yield from _repeated("workers", [w.name for w in fleet.workers])
    for i, worker in enumerate(fleet.workers):
        yield from _check_worker(worker, f"workers[{i}]")


def _check_worker(worker: FleetWorker, path: str) -> Iterator[str]:
    yield from _bad_name(worker.name, path)
    for field, kind, listed in (
        ("flavors", "ResourceFlavor", worker.flavors),
        ("topologies", "Topology", worker.topologies),
        ("cohorts", "Cohort", worker.cohorts),
        ("clusterQueues", "ClusterQueue", worker.cluster_queues),
    ):
        yield from _repeated(f"{path}.{field}", [item.name for item in listed])
        for i, item in enumerate(listed):
            yield from _bad_name(item.name, f"{path}.{field}[{i}]")
            yield from _check_spec(kind, item, f"{path}.{field}[{i}].spec")
    yield from _check_serving(worker.cluster_queues, f"{path}.clusterQueues")


def _check_serving(queues: Sequence[ServingQueue], path: str) -> Iterator[str]:
    seen: dict[str, str] = {}
    for i, queue in enumerate(queues):
        if not mapping(queue.spec).get("resourceGroups"):
            yield (
                f"{path}[{i}].spec.resourceGroups: required; the quotas of a worker are its own "
                "and never made up"
            )
        for name in queue.serves:
            if name in seen:
                yield f'{path}[{i}].serves: "{name}" is served by "{seen[name]}" already'
            seen.setdefault(name, queue.name)
    if sum(not queue.serves for queue in queues) > 1:
        yield f"{path}: only one may leave out serves, which means: all that no other one serves"


def _check_spec(kind: str, item: Item, path: str) -> Iterator[str]:
    """Yield problems of a spec's fields and types or, if there are none, of its rules."""
    type_ = _SPECS[kind]
    unknown = list(_find_unknown(_Info.type_info(type_), item.spec, path))
    yield from unknown
    try:
        msgspec.convert(item.spec, type_)
    except msgspec.ValidationError as error:
        yield _reword(str(error), path)
        return
    if unknown:
        return
    obj = {
        "apiVersion": V1BETA2,
        "kind": kind,
        "metadata": {"name": item.name},
        "spec": item.spec,
    }
    for problem in RULES[kind].validate_create(obj):
        yield f"{path.removesuffix('.spec')}.{problem}"


_SPECS: Mapping[str, type[msgspec.Struct]] = {
    "ClusterQueue": api.ClusterQueueSpec,
    "Cohort": api.CohortSpec,
    "ResourceFlavor": api.ResourceFlavorSpec,
    "Topology": api.TopologySpec,
}


def _bad_name(name: str, path: str) -> Iterator[str]:
    for message in check_subdomain(name):
        yield f'{path}.name: "{name}": {message}'


def _repeated(path: str, names: Sequence[str]) -> Iterator[str]:
    for i, name in enumerate(names):
        if name in names[:i]:
            yield f'{path}[{i}].name: "{name}" is listed twice'


def _find_unknown(info: Any, value: Any, path: str) -> Iterator[str]:
    """Yield each unknown key, with the most similar known one."""
    if isinstance(info, _Info.Metadata):
        yield from _find_unknown(info.type, value, path)
    elif isinstance(info, _Info.UnionType):
        for option in info.types:
            yield from _find_unknown(option, value, path)
    elif isinstance(info, _Info.StructType) and isinstance(value, Mapping):
        fields = {field.encode_name: field.type for field in info.fields}
        for key, child in value.items():
            place = f"{path}.{key}" if path else str(key)
            if key in fields:
                yield from _find_unknown(fields[key], child, place)
                continue
            close = difflib.get_close_matches(str(key), fields, n=1)
            hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(fields)}"
            yield f"{place}: unknown field; {hint}"
    elif isinstance(info, _Info.VarTupleType) and isinstance(value, list):
        for i, item in enumerate(value):
            yield from _find_unknown(info.item_type, item, f"{path}[{i}]")


def _reword(message: str, root: str) -> str:
    """Move msgspec's path from the end of its message to the front."""
    words, _, path = message.partition(" - at `$")
    place = f"{root}{path.rstrip('`')}".lstrip(".")
    return f"{place or 'the file'}: {words[:1].lower()}{words[1:]}"


def _type_name(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
