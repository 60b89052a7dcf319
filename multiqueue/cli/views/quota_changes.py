"""How the quotas of a manifest differ from those of the cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.lib.quantity import parse_quantity

Json = Mapping[str, Any]
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
    """One field that a manifest changes; None: not set there."""

    kind: str
    name: str
    flavor: str
    resource: str
    field: str
    before: str | None
    after: str | None

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
    """Return the fields of quotas that differ, in the order of flavors and resources."""
    before, after = dict(_list_fields(stored or {})), dict(_list_fields(wanted))
    return [
        QuotaChange(
            kind=wanted["kind"],
            name=wanted["metadata"]["name"],
            flavor=place[0],
            resource=place[1],
            field=place[2],
            before=before.get(place),
            after=after.get(place),
        )
        for place in sorted(before.keys() | after.keys())
        if not _is_same(before.get(place), after.get(place))
    ]


def _list_fields(obj: Json) -> Iterator[tuple[tuple[str, str, str], str]]:
    for group in obj.get("spec", {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                for field in VERBS:
                    if quota.get(field) is not None:
                        yield (flavor["name"], quota["name"], field), str(quota[field])


def _is_same(before: str | None, after: str | None) -> bool:
    if before is None or after is None:
        return before is after
    return parse_quantity(before) == parse_quantity(after)


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
