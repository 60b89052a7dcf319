"""Topology assignments between the engine and ``topologyAssignment`` on the wire (E-146).

`multiqueue.api.topology_encoding` factors out common parts of the values of one slice; this module
decides which domains form a slice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

from multiqueue.api.topology_encoding import Domain, compress_domains, expand_domains
from multiqueue.model.topology import TopologyAssignment, TopologyDomain

Json = dict[str, Any]

MAX_SLICES = 1000
MAX_DOMAINS_PER_SLICE = 100_000


def decode_topology(wire: Mapping[str, Any]) -> TopologyAssignment:
    """Read a v1beta2 ``topologyAssignment``.

    Raises:
        ValueError: the numbers of values and domains disagree.
    """
    return TopologyAssignment(
        levels=tuple(wire.get("levels") or ()),
        domains=tuple(TopologyDomain(values, count) for values, count in expand_domains(wire)),
    )


def encode_topology(
    assignment: TopologyAssignment, *, by_hostname_prefix: bool = True
) -> dict[str, Any]:
    """Write a v1beta2 ``topologyAssignment`` in the shortest form.

    Args:
        assignment: The domains in the order to write.
        by_hostname_prefix: Gate TASAssignmentsEncodingByHostnamePrefix: also try one slice per run
            of nodes with a common name prefix, and use the shorter form.
    """
    rows: list[Domain] = [(domain.values, domain.count) for domain in assignment.domains]
    single = _encode(assignment.levels, _chunks([rows]))
    if not by_hostname_prefix or not assignment.names_nodes:
        return single
    grouped = _by_hostname_prefix(assignment.levels, rows)
    if grouped is None or len(json.dumps(grouped)) >= len(json.dumps(single)):
        return single
    return grouped


def _by_hostname_prefix(levels: Sequence[str], rows: Sequence[Domain]) -> Json | None:
    """Return slices by common prefix: the longest prefixes that give few enough slices."""
    prefixes = [_prefixes(values[-1]) for values, _ in rows]
    uses: dict[str, int] = {}
    for found in prefixes:
        for prefix in found:
            uses[prefix] = uses.get(prefix, 0) + 1
    shared = [[prefix for prefix in found if uses[prefix] > 1] for found in prefixes]
    for depth in range(max(map(len, shared), default=0), 0, -1):
        keys = ["".join(found[:depth][-1:]) for found in shared]
        runs = groupby(zip(keys, rows, strict=True), key=lambda pair: pair[0])
        chunks = _chunks([row for _, row in run] for _, run in runs)
        if len(chunks) <= MAX_SLICES:
            return _encode(levels, chunks)
    return None


def _prefixes(hostname: str) -> list[str]:
    """Return the prefixes that end in a dash: ``a-`` and ``a-b-`` for ``a-b-1``."""
    parts = hostname.split("-")[:-1]
    return list(accumulate(f"{part}-" for part in parts))


def _chunks(runs: Iterable[Sequence[Domain]]) -> list[Sequence[Domain]]:
    return [
        run[start:end]
        for run in runs
        for start, end in pairwise(
            [*range(0, len(run), MAX_DOMAINS_PER_SLICE), len(run)],
        )
    ]


def _encode(levels: Sequence[str], chunks: Sequence[Sequence[Domain]]) -> Json:
    slices = [part for chunk in chunks for part in compress_domains(levels, chunk)["slices"]]
    return {"levels": list(levels), "slices": slices}
