"""How the quotas of a manifest differ from those of the cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.cli.errors import UsageProblem
from multiqueue.lib.quantity import Quantity, QuantityError, parse_quantity

Json = Mapping[str, Any]
Place = tuple[str, str, str]
"""Flavor, resource and field."""
CHANGE_HEADERS = ("QUEUE", "FLAVOR", "RESOURCE", "FIELD", "FROM", "TO")
EFFECT_HEADERS = ("WORKLOAD", "QUEUE", "EFFECT", "BEFORE", "AFTER", "WHY")
TARGETS = {"ClusterQueue": "cq", "Cohort": "cohort"}
"""The kinds with quotas, as what-ifs name them."""
VERBS = {
    "nominalQuota": "quota",
    "borrowingLimit": "borrowing-limit",
    "lendingLimit": "lending-limit",
}
"""The fields of a quota, and the verbs of what-ifs that set them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """One field that a manifest changes; None: not set there.

    Attributes:
        tryable: Whether a what-if can try it: it can neither add nor remove a quota or its owner.
    """

    kind: str
    name: str
    flavor: str
    resource: str
    field: str
    before: str | None
    after: str | None
    tryable: bool

    def row(self) -> list[str]:
        """Return the cells of `CHANGE_HEADERS`."""
        name = self.name if self.kind == "ClusterQueue" else f"{self.kind} {self.name}"
        return [
            name,
            self.flavor,
            self.resource,
            self.field,
            *("-" if each is None else each for each in (self.before, self.after)),
        ]

    def request(self) -> str:
        """Return the change in the language of what-ifs."""
        value = "-" if self.after is None else self.after
        owner = f"{TARGETS[self.kind]}/{self.name}"
        return f"{VERBS[self.field]} {owner} {self.resource}@{self.flavor}={value}"


def list_changes(stored: Json | None, wanted: Json) -> list[QuotaChange]:
    """Return the fields of quotas that differ, in the order of flavors and resources.

    Raises:
        UsageProblem: A value is no quantity; the message names object and field.
    """
    before, after = dict(_list_fields(stored or {})), dict(_list_fields(wanted))
    kept = {place[:2] for place in before} & {place[:2] for place in after}
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    return [
        QuotaChange(
            kind=kind,
            name=name,
            flavor=place[0],
            resource=place[1],
            field=place[2],
            before=before.get(place),
            after=after.get(place),
            tryable=place[:2] in kept and (place[2] != "nominalQuota" or place in after),
        )
        for place in sorted(before.keys() | after.keys())
        if _read(f'{kind} "{name}"', place, before) != _read(f'{kind} "{name}"', place, after)
    ]


def _list_fields(obj: Json) -> Iterator[tuple[Place, str]]:
    for group in obj.get("spec", {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                for field in VERBS:
                    if quota.get(field) is not None:
                        yield (flavor["name"], quota["name"], field), str(quota[field])


def _read(owner: str, place: Place, values: Mapping[Place, str]) -> Quantity | None:
    if place not in values:
        return None
    try:
        return parse_quantity(values[place])
    except QuantityError as error:
        flavor, resource, field = place
        raise UsageProblem(
            f"{owner}: {field} of {resource} in flavor {flavor}: {error}; write a quantity such "
            "as 4 or 500m"
        ) from error


def list_effect_rows(workloads: Iterable[Json]) -> list[list[str]]:
    """Return a row for each Workload of the answer of a what-if."""
    rows = []
    for each in workloads:
        known = each["after"] or each["before"]
        namespace = known["workload"].partition("/")[0]
        rows.append(
            [
                f"{namespace}/{known['job']}",
                known["clusterQueue"],
                each["effect"],
                _world(each["before"]),
                _world(each["after"]),
                (known["stoppedBy"] or known).get("message") or known["why"] or "",
            ]
        )
    return rows


def _world(row: Json | None) -> str:
    if row is None:
        return "-"
    return f"{row['fate']} #{row['position']}" if row["position"] else str(row["fate"])
