"""The rows of docs/compatibility.md by the feature that they are about. Pure.

A unit test compares this table with the page: each row is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from multiqueue.api.config import Configuration, Gate
from multiqueue.api.names import (
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_REQUEST_CONTROLLER,
    WORKLOAD_SLICE_NAME,
    WORKLOAD_SLICE_REPLACEMENT_FOR,
)
from multiqueue.api.validation.access import mapping, text
from multiqueue.cli.migration.findings import MigrationFinding, tells
from multiqueue.cli.migration.installation import Installation

ALWAYS = (
    *(
        1,
        2,
        3,
        4,
        5,
        16,
        20,
        25,
        26,
        27,
        29,
        30,
        32,
        34,
        35,
        56,
        62,
        63,
        67,
        68,
        85,
        86,
        89,
        90,
        91,
    ),
    *(92, 93),
)
"""Rows that hold for every installation."""

ROWS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "MultiKueue": (
            *(6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45),
            *(46, 47, 50, 53, 54, 55, 57, 58, 59),
        ),
        "ProvisioningRequest": (17, 18, 19),
        "waitForPodsReady": (21, 22, 23),
        "Topology": (24, 51),
        "metrics on a loopback address": (28,),
        "visibility API": (31,),
        "tls.curvePreferences": (33,),
        "elastic jobs": (48, 49, 50, 52, 72, 73),
        "concurrent admission": (59, 60),
        "devices (DRA)": (61,),
        "JobSet": (64, 66),
        "JAXJob": (65, 66),
        "MPIJob": (66,),
        "PaddleJob": (66,),
        "PyTorchJob": (66,),
        "TFJob": (66,),
        "XGBoostJob": (66,),
        "RayJob": (69, 70, 71, 72, 73),
        "RayCluster": (70, 71, 73),
        "RayService": (70, 71, 73),
        "AppWrapper": (74, 75),
        "SparkApplication": (76, 77),
        "TrainJob": (78, 79),
        "Pod": (80, 81, 82, 83),
        "StatefulSet": (84, 87),
        "LeaderWorkerSet": (87, 88),
    }
)
"""Rows that matter only if the feature or the kind is in use."""

_LOOPBACK = ("127.", "localhost:", "[::1]:")
_FEATURES: Mapping[str, Callable[[Installation, Configuration], bool]] = MappingProxyType(
    {
        "MultiKueue": lambda found, _: _has_check(found, MULTIKUEUE_CONTROLLER),
        "ProvisioningRequest": lambda found, _: _has_check(found, PROVISIONING_REQUEST_CONTROLLER),
        "waitForPodsReady": lambda _, config: config.wait_for_pods_ready is not None,
        "Topology": lambda found, _: any(found.of("Topology")),
        "metrics on a loopback address": lambda _, config: config.metrics.bind_address.startswith(
            _LOOPBACK
        ),
        "visibility API": lambda _, config: config.gates.enabled(Gate.VISIBILITY_ON_DEMAND),
        "tls.curvePreferences": lambda _, config: bool(config.tls and config.tls.curve_preferences),
        "elastic jobs": lambda found, _: any(has_slices(w) for w in found.of("Workload")),
        "concurrent admission": lambda found, _: any(
            mapping(queue, "spec").get("concurrentAdmissionPolicy")
            for queue in found.of("ClusterQueue")
        ),
        "devices (DRA)": lambda _, config: bool(config.resources.device_class_mappings),
    }
)


def find_differences(
    found: Installation, config: Configuration, kinds: Mapping[str, int]
) -> Iterator[MigrationFinding]:
    """Yield what behaves differently here, for each feature that is in use.

    Args:
        found: The installation.
        config: The configuration that this program would get.
        kinds: The kinds of jobs in use, with their numbers of Workloads.
    """
    yield _tell("every installation", ALWAYS)
    for feature, rows in ROWS.items():
        is_used = _FEATURES.get(feature)
        if is_used(found, config) if is_used else feature in kinds:
            yield _tell(feature, rows)


def has_slices(workload: Mapping[str, object]) -> bool:
    """Whether a Workload is a slice of an elastic job."""
    annotations = mapping(workload, "metadata", "annotations")
    return WORKLOAD_SLICE_NAME in annotations or WORKLOAD_SLICE_REPLACEMENT_FOR in annotations


def _has_check(found: Installation, controller: str) -> bool:
    checks = found.of("AdmissionCheck")
    return any(text(mapping(c, "spec").get("controllerName")) == controller for c in checks)


def _tell(feature: str, rows: tuple[int, ...]) -> MigrationFinding:
    return tells("differences", feature, "behaves differently: docs/compatibility.md", rows)
