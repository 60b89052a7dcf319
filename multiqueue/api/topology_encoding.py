"""Topology assignments: the compact wire form of v1beta2, and the plain list of domains.

A domain is the values of the level labels, widest level first, with a number of pods. The wire form
groups domains in slices and factors out what their values share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Domain = tuple[tuple[str, ...], int]
"""(value of each level, pods)."""

MAX_DOMAINS = 100_000
"""Most domains, as in v1beta1: a few bytes could otherwise expand to any number of domains."""


def expand_domains(assignment: Mapping[str, Any]) -> list[Domain]:
    """Return the domains of a v1beta2 ``topologyAssignment`` in their order.

    Raises:
        ValueError: the counts of a slice disagree, or there are too many domains.
    """
    result: list[Domain] = []
    for part in assignment.get("slices") or ():
        count = int(part.get("domainCount", 0))
        if not 0 <= count <= MAX_DOMAINS - len(result):
            raise ValueError(f"{count} domains in a slice; at most {MAX_DOMAINS} in all")
        columns = [_expand_values(level, count) for level in part.get("valuesPerLevel") or ()]
        pods = _expand_counts(part.get("podCounts") or {}, count)
        rows = zip(*columns, strict=True) if columns else iter([()] * count)
        result.extend(zip(rows, pods, strict=True))
    return result


def compress_domains(levels: Sequence[str], domains: Iterable[Domain]) -> dict[str, Any]:
    """Return the v1beta2 ``topologyAssignment`` of some domains; the order is kept."""
    rows = list(domains)
    if not rows:
        return {"levels": list(levels), "slices": []}
    columns = [[values[i] for values, _ in rows] for i in range(len(levels))]
    part = {
        "domainCount": len(rows),
        "valuesPerLevel": [_compress_values(column) for column in columns],
        "podCounts": _compress_counts([count for _, count in rows]),
    }
    return {"levels": list(levels), "slices": [part]}


def _expand_values(level: Mapping[str, Any], count: int) -> list[str]:
    individual = level.get("individual")
    if individual is None:
        return [level.get("universal", "")] * count
    prefix, suffix = individual.get("prefix", ""), individual.get("suffix", "")
    values = [f"{prefix}{root}{suffix}" for root in individual.get("roots") or ()]
    if len(values) != count:
        raise ValueError(f"{len(values)} roots for {count} domains")
    return values


def _expand_counts(counts: Mapping[str, Any], count: int) -> list[int]:
    individual = counts.get("individual")
    if individual is None:
        return [int(counts.get("universal", 1))] * count
    if len(individual) != count:
        raise ValueError(f"{len(individual)} podCounts for {count} domains")
    return list(individual)


def _compress_values(values: Sequence[str]) -> dict[str, Any]:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _common_prefix(values)
    tails = [value[len(prefix) :] for value in values]
    suffix = _common_prefix([tail[::-1] for tail in tails])[::-1]
    individual: dict[str, Any] = {
        "roots": [tail[: len(tail) - len(suffix)] if suffix else tail for tail in tails]
    }
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    return {"individual": individual}


def _common_prefix(values: Sequence[str]) -> str:
    first, last = min(values), max(values)
    for i, character in enumerate(first):
        if character != last[i]:
            return first[:i]
    return first


def _compress_counts(counts: Sequence[int]) -> dict[str, Any]:
    return {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": list(counts)}
