"""What a pod set asks of a topology, in numbers of levels (E-132, E-133)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.value import Value


class TopologyRequestError(ValueError):
    """A request that this topology cannot understand."""


class PlacementRequest(Value, frozen=True, kw_only=True, gc=False):
    """Where pods want to be, relative to each other.

    Shape: ``level`` is the level of the domain that should hold all pods; a slice of
    ``slice_size`` pods stays in one domain of ``slice_level``, at or below it. ``inner_sizes`` has
    the size of the slices within a slice by level, 1 if there are none. ``layers`` are the
    slices as asked for, for the words of a failure.
    """

    level: int
    required: bool = False
    unconstrained: bool = False
    slice_level: int
    slice_size: int = 1
    inner_sizes: tuple[int, ...] = ()
    layers: tuple[tuple[int, int], ...] = ()

    @property
    def is_multi_layer(self) -> bool:
        """Whether there are slices within slices."""
        return len(self.layers) > 1


def slice_layers(request: PodSetTopologyRequest | None) -> tuple[tuple[str, int], ...]:
    """Return (level, size) of the slices, the largest first; empty if none are requested."""
    if request is None:
        return ()
    layers = request.podset_slice_required_topology_constraints
    if layers:
        return tuple((layer.topology, layer.size) for layer in layers)
    if request.pod_set_slice_required_topology:
        return ((request.pod_set_slice_required_topology, request.pod_set_slice_size or 0),)
    return ()


def asked_levels(request: PodSetTopologyRequest) -> set[str]:
    """Return the levels that a topology needs to have for the request (E-62)."""
    named = {level for level, _ in slice_layers(request)}
    return named | {level for level in (request.required, request.preferred) if level}


def interpret(
    levels: Sequence[str], request: PodSetTopologyRequest | None, *, implied: bool = False
) -> PlacementRequest:
    """Return what is asked for in a topology of these levels.

    Args:
        levels: node labels of the topology, the widest first.
        request: what the pod set says.
        implied: the queue has nothing but topologies, so that any place will do.

    Raises:
        TopologyRequestError: the topology lacks a level, or slices contradict each other.
    """
    layers = slice_layers(request)
    is_for_slices_only = bool(layers) and not (request and (request.required or request.preferred))
    level = _level(levels, request, is_for_slices_only=is_for_slices_only, implied=implied)
    numbered = tuple((_number(levels, name, " for slices"), size) for name, size in layers)
    slice_level, slice_size = numbered[0] if numbered else (len(levels) - 1, 1)
    if slice_size <= 0:
        raise TopologyRequestError("slice topology requested, but slice size not provided")
    if level > slice_level:
        raise TopologyRequestError(
            f"podset slice topology {levels[slice_level]} is above the podset topology "
            f"{levels[level]}"
        )
    return PlacementRequest(
        level=level,
        required=bool(request and request.required),
        unconstrained=is_for_slices_only or bool(implied or (request and request.unconstrained)),
        slice_level=slice_level,
        slice_size=slice_size,
        inner_sizes=_inner_sizes(levels, numbered),
        layers=numbered,
    )


def _level(
    levels: Sequence[str],
    request: PodSetTopologyRequest | None,
    *,
    is_for_slices_only: bool,
    implied: bool,
) -> int:
    if request is not None and (request.required or request.preferred):
        return _number(levels, request.required or request.preferred or "", "")
    if is_for_slices_only:
        return 0
    if implied or (request is not None and request.unconstrained):
        return len(levels) - 1
    raise TopologyRequestError("topology level not specified")


def _number(levels: Sequence[str], name: str, purpose: str) -> int:
    if name not in levels:
        raise TopologyRequestError(f"no requested topology level{purpose}: {name}")
    return levels.index(name)


def _inner_sizes(levels: Sequence[str], layers: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Spread the size of each inner layer over the levels down to it (E-133)."""
    sizes = [1] * len(levels)
    for (above, outer), (level, size) in pairwise(layers):
        if level <= above:
            raise TopologyRequestError(
                f"additional slice layer topology {levels[level]} must be at a lower level than "
                f"{levels[above]}"
            )
        if size <= 0 or outer % size:
            raise TopologyRequestError(
                f"additional slice layer size {size} must evenly divide parent layer size {outer}"
            )
        for between in range(above + 1, level + 1):
            sizes[between] = size
    return tuple(sizes)
