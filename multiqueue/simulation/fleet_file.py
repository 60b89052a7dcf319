"""Read a fleet from a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multiqueue.api.durations import parse_duration
from multiqueue.lib import bounded_yaml
from multiqueue.simulation.fleet import Cluster, Outage, Preempting, SimulatedFleet
from multiqueue.simulation.traces.trace import CLASSES, MODELS

KEYS = (
    "clusters",
    "speeds",
    "alternatives",
    "preemption",
    "fairSharing",
    "managerQuotaPercent",
    "watts",
)
CLUSTER_KEYS = ("name", "gpus", "prices", "outage")


class FleetFileError(ValueError):
    """A file does not describe a fleet; the text names the field."""


def load_fleet(path: Path) -> SimulatedFleet:
    """Read a fleet.

    Raises:
        FleetFileError: The file cannot be read, or a field is invalid.
    """
    try:
        found = bounded_yaml.load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise FleetFileError(f'fleet "{path}" cannot be read: {error}') from error
    except bounded_yaml.YamlError as error:
        raise FleetFileError(f'fleet "{path}" is no YAML: {error}') from error
    try:
        return parse_fleet(found)
    except FleetFileError as error:
        raise FleetFileError(f'fleet "{path}": {error}') from error


def parse_fleet(found: Any) -> SimulatedFleet:
    """Return the fleet that a document describes.

    Raises:
        FleetFileError: A field is invalid.
    """
    fields = _mapping(found, "the document", KEYS)
    listed = fields.get("clusters")
    if not isinstance(listed, list) or not listed:
        raise FleetFileError("clusters: must list at least one cluster")
    clusters = tuple(_cluster(entry, f"clusters[{n}]") for n, entry in enumerate(listed))
    names = [cluster.name for cluster in clusters]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise FleetFileError(f'clusters: "{twice}" is there twice')
    preempting = fields.get("preemption", str(Preempting.LESS_URGENT))
    if preempting not in list(Preempting):
        choices = ", ".join(Preempting)
        raise FleetFileError(f"preemption: {preempting!r} must be one of {choices}")
    fair_sharing = fields.get("fairSharing", False)
    if not isinstance(fair_sharing, bool):
        raise FleetFileError(f"fairSharing: {fair_sharing!r} must be true or false")
    percent = _number(fields.get("managerQuotaPercent", 100), "managerQuotaPercent")
    speeds = _mapping(fields.get("speeds", {}), "speeds", (*CLASSES, *MODELS))
    alternatives = _numbers(fields.get("alternatives", {}), "alternatives")
    if large := next((name for name, part in alternatives.items() if part >= 1), ""):
        raise FleetFileError(f"alternatives.{large}: must be less than 1, a part of the pods")
    return SimulatedFleet(
        clusters=clusters,
        preempting=Preempting(preempting),
        fair_sharing=fair_sharing,
        quota_percent=round(percent),
        speeds={what: _thousandths(of, f"speeds.{what}") for what, of in speeds.items()},
        alternatives=alternatives,
        watts=_numbers(fields.get("watts", {}), "watts"),
    )


def _cluster(entry: Any, where: str) -> Cluster:
    fields = _mapping(entry, where, CLUSTER_KEYS)
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        raise FleetFileError(f"{where}.name: must be a name")
    gpus = _mapping(fields.get("gpus"), f"{where}.gpus", None)
    counts = {}
    for flavor, count in gpus.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise FleetFileError(f"{where}.gpus.{flavor}: {count!r} must be a number of GPUs")
        counts[flavor] = count
    if not counts:
        raise FleetFileError(f"{where}.gpus: must name GPUs, such as {{a100: 64}}")
    prices = _thousandths(fields.get("prices", {}), f"{where}.prices")
    outage = _outage(fields["outage"], f"{where}.outage") if "outage" in fields else None
    return Cluster(name=name, gpus=counts, prices=prices, outage=outage)


def _outage(found: Any, where: str) -> Outage:
    fields = _mapping(found, where, ("after", "for"))
    try:
        return read_outage(str(fields.get("after", "")), str(fields.get("for", "")))
    except ValueError as error:
        raise FleetFileError(f"{where}: {error}; write {{after: 24h, for: 24h}}") from error


def read_outage(after: str, lasts: str) -> Outage:
    """Return the outage of two durations, such as ``24h``.

    Raises:
        ValueError: One is no duration, or it lasts no time.
    """
    begin, length = (parse_duration(text).total_seconds() for text in (after, lasts))
    if begin < 0 or length <= 0:
        raise ValueError("an outage cannot begin before the trace, and has to last for some time")
    return Outage(begin, length)


def _mapping(found: Any, where: str, known: tuple[str, ...] | None) -> Mapping[str, Any]:
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise FleetFileError(f"{where}: must be a mapping, is {found!r:.60}")
    if known is not None and (other := next((key for key in found if key not in known), "")):
        raise FleetFileError(f"{where}: unknown {other}; known are {', '.join(known)}")
    return found


def _thousandths(found: Any, where: str) -> dict[str, int]:
    return {name: round(1000 * value) for name, value in _numbers(found, where).items()}


def _numbers(found: Any, where: str) -> dict[str, float]:
    fields = _mapping(found, where, None)
    return {name: _number(value, f"{where}.{name}") for name, value in fields.items()}


def _number(found: Any, where: str) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or found <= 0:
        raise FleetFileError(f"{where}: {found!r} must be a number above 0")
    return float(found)
