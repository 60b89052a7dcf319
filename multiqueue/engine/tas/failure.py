"""Why pods do not fit in a topology, with the numbers and in upstream's words (E-144)."""

from __future__ import annotations

from multiqueue.engine.value import Value


class PlacementFailure(Value, frozen=True, kw_only=True, gc=False):
    """Pods that found no place.

    Shape: ``fit`` of ``asked`` pods, or slices where ``slice_size`` is more than 1. ``layers`` are
    (level, fit, asked) of slices within slices, for the best domain. ``excluded`` are sorted pairs
    of a reason and the nodes, out of ``nodes``, that cannot take a single pod for it. ``detail`` is
    set where the request itself makes no sense here; it replaces everything else.
    """

    topology: str
    fit: int = 0
    asked: int = 0
    slice_size: int = 1
    layers: tuple[tuple[str, int, int], ...] = ()
    nodes: int = 0
    excluded: tuple[tuple[str, int], ...] = ()
    detail: str = ""

    @property
    def message(self) -> str:
        """The whole of it in words."""
        if self.detail:
            return self.detail
        text = self._room()
        if self.excluded:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in self.excluded)
            text += f". Total nodes: {self.nodes}; excluded: {reasons}"
        return text

    def _room(self) -> str:
        topology = f'topology "{self.topology}"'
        if self.layers:
            layers = (
                f"; {fit}/{of} slice(s) fit on level {level}" for level, fit, of in self.layers
            )
            return f"{topology} doesn't allow to fit" + "".join(layers)
        asked = f"{self.asked} {'pod' if self.slice_size == 1 else 'slice'}(s)"
        if self.fit == 0:
            return f"{topology} doesn't allow to fit any of {asked}"
        return f"{topology} allows to fit only {self.fit} out of {asked}"
