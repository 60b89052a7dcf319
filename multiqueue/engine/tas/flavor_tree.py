"""A tree of domains with its tables of counts, and how pods are placed in it."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from multiqueue.engine.tas.counts import CountShape, CountTable
from multiqueue.engine.tas.tree import DomainTree

MAX_TABLES = 64
"""Shapes of pods that counts are kept of; the one not used for the longest time goes first."""


class Profile(NamedTuple):
    """Which gates decide how domains are chosen (E-139, E-140, E-145).

    Shape: ``mixed`` is TASProfileMixed, ``balanced`` TASBalancedPlacement,
    ``respects_preferred_affinity`` TASRespectNodeAffinityPreferred.
    """

    mixed: bool = True
    balanced: bool = False
    respects_preferred_affinity: bool = False


class FlavorTree:
    """Domains of one flavor."""

    def __init__(self, tree: DomainTree, profile: Profile) -> None:
        self.tree = tree
        self.profile = profile
        self._tables: OrderedDict[CountShape, CountTable] = OrderedDict()

    def table(self, shape: CountShape) -> CountTable:
        """Return the counts of a shape at this moment."""
        found = self._tables.get(shape)
        if found is None:
            found = self._tables[shape] = CountTable(self.tree, shape)
            if len(self._tables) > MAX_TABLES:
                self._tables.popitem(last=False)
        else:
            self._tables.move_to_end(shape)
        found.refresh()
        return found
