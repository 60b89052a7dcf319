"""The tree of cohorts and queues for ``multiqueue cohorts``, from rows of the fleet API. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from multiqueue.model.resources import format_amount

Json = dict[str, Any]

HEADERS = ("COHORT", "FLAVOR", "RESOURCE", "NOMINAL", "USED", "LENT", "BORROWED")
WIDE_HEADERS = (*HEADERS, "FREE", "BORROWING LIMIT", "LENDING LIMIT", "SHARE")
FLOW_HEADERS = ("LENDS", "BORROWS", "FLAVOR", "RESOURCE", "AMOUNT")
_AMOUNTS = ("nominal", "used", "lent", "borrowed", "free")


def name_of(key: str) -> str:
    """Return the name in a key such as ``cohort:research``."""
    return key.partition(":")[2]


def walk_tree(quotas: Iterable[Json], cohort: str = "") -> Iterator[tuple[int, Json]]:
    """Yield each Cohort and ClusterQueue behind the one above it, and how deep it is.

    Args:
        quotas: The rows of ``quotas``.
        cohort: The name of the Cohort to begin with; empty: all that have nothing above them.
    """
    children: dict[str | None, list[Json]] = {}
    rows = sorted(quotas, key=lambda each: each["metadata"]["name"])
    for each in rows:
        children.setdefault(each["status"]["cohort"], []).append(each)

    def below(level: int, nodes: Iterable[Json]) -> Iterator[tuple[int, Json]]:
        for node in nodes:
            yield level, node
            yield from below(level + 1, children.get(node["metadata"]["name"], ()))

    roots = [each for each in rows if each["metadata"]["name"] == f"cohort:{cohort}"]
    yield from below(0, roots if cohort else children.get(None, ()))


def list_tree_rows(tree: Iterable[tuple[int, Json]]) -> list[list[Any]]:
    """Return a row of `WIDE_HEADERS` for each flavor and resource of each node of a tree."""
    rows: list[list[Any]] = []
    for level, node in tree:
        status, name = node["status"], name_of(node["metadata"]["name"])
        if status["kind"] == "ClusterQueue":
            name = f"queue {name}"
        head = f"└{'─' * level} {name}" if level else name
        share = "-" if status["share"] is None else f"{status['share'] / 1000:.2f}"
        # A node may have no quota of its own; it is shown for what is below it.
        for quota in status["quotas"] or [{}]:
            pair = [quota.get("flavor"), quota.get("resource")]
            amounts = [_amount(quota, field, "unlimited") for field in _AMOUNTS]
            limits = [_amount(quota, f"{way}Limit", "none") for way in ("borrowing", "lending")]
            rows.append([head, *pair, *amounts, *limits, share])
    return rows


def _amount(quota: Json, field: str, otherwise: str) -> str | None:
    if field not in quota:
        return None
    amount = quota[field]
    return otherwise if amount is None else format_amount(quota["resource"], amount)


def list_flow_rows(tree: Iterable[tuple[int, Json]]) -> list[list[Any]]:
    """Return a row for each amount that one member of a cohort lends to another."""
    return [
        [
            *(name_of(flow[side]) or f"the cohort's {flow[side]}" for side in _SIDES),
            flow["flavor"],
            flow["resource"],
            format_amount(flow["resource"], flow["amount"]),
        ]
        for _, node in tree
        for flow in node["status"]["flows"]
        if flow["amount"]
    ]


_SIDES = ("lender", "borrower")
