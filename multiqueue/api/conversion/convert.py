"""The entry points of conversion: one object, or one function per kind for an API server.

Guarantees: arguments are not changed. Unknown fields stay. Values of wrong types pass through, so
that validation finds them; bad objects raise nothing. Fields that one version lacks are kept in an
annotation, so that reading and writing through that version loses nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.api.conversion import cluster_queue, others, workload
from multiqueue.api.names import GROUP

Object = dict[str, Any]
Converter = Callable[[dict[str, Any], str], dict[str, Any]]
"""(object, wanted apiVersion) -> a new object in that version."""
Change = Callable[[Object], None]

_CHANGES: Mapping[str, tuple[Change, Change]] = {
    "AdmissionCheck": (others.upgrade_admission_check, others.downgrade_admission_check),
    "ClusterQueue": (cluster_queue.upgrade, cluster_queue.downgrade),
    "Cohort": (others.upgrade_cohort, others.keep),
    "LocalQueue": (others.upgrade_local_queue, others.downgrade_local_queue),
    "MultiKueueCluster": (others.upgrade_multikueue_cluster, others.downgrade_multikueue_cluster),
    "MultiKueueConfig": (others.upgrade_multikueue_config, others.downgrade_multikueue_config),
    "ProvisioningRequestConfig": (others.keep, others.keep),
    "ResourceFlavor": (others.upgrade_resource_flavor, others.keep),
    "Topology": (others.keep, others.keep),
    "Workload": (workload.upgrade, workload.downgrade),
    "WorkloadPriorityClass": (others.keep, others.keep),
}
"""Kind -> (from v1beta1 to v1beta2, and back), changing in place."""


def convert(obj: Mapping[str, Any], to_version: str) -> Object:
    """Return the object in another version.

    Args:
        obj: an object of our group, in v1beta1 or v1beta2.
        to_version: ``v1beta1`` or ``v1beta2``, with or without the group.

    Raises:
        ValueError: the wanted version does not exist.
    """
    result = copy.deepcopy(dict(obj))
    convert_in_place(result, to_version)
    return result


def convert_in_place(obj: Object, to_version: str) -> None:
    """Convert an object in place, which saves a copy; nobody else may hold the object.

    Raises:
        ValueError: the wanted version does not exist.
    """
    version = to_version.removeprefix(f"{GROUP}/")
    if version not in {"v1beta1", "v1beta2"}:
        raise ValueError(f'"{to_version}" is not a version of {GROUP}; use v1beta1 or v1beta2')
    changes = _CHANGES.get(str(obj.get("kind")))
    if obj.get("apiVersion") != f"{GROUP}/{version}" and changes is not None:
        upgrade, downgrade = changes
        (upgrade if version == "v1beta2" else downgrade)(obj)
    obj["apiVersion"] = f"{GROUP}/{version}"


def is_known_kind(kind: str) -> bool:
    """Whether objects of this kind can be converted."""
    return kind in _CHANGES


def converters() -> dict[tuple[str, str], Converter]:
    """Return a converter for each (group, kind), for the embedded API server."""
    return {(GROUP, kind): convert for kind in _CHANGES}
