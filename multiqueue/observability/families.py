"""Metric families with cached label children: 0.35 instead of 1.1 microseconds a look-up.

A class that declares its metrics in its body, one per line, is the table of metrics::

    class Metrics(MetricTable):
        pending = gauge("kueue_pending_workloads", "Workloads that wait.", "cluster_queue status")

    metrics.pending.child("team-a", "active").set(3)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, overload

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.metrics import MetricWrapperBase

from multiqueue.lib.words import words

M = TypeVar("M", bound=MetricWrapperBase)

ROLE = "replica_role"
"""The label that the table fills in: leader, follower or standalone."""


def exponential(count: int) -> tuple[float, ...]:
    """Return ``count`` of Kueue's buckets: 1, then 2.5 doubled each time."""
    return (1.0, *(2.5 * 2**n for n in range(count - 1)))


class Family(Generic[M]):
    """One metric with all of its label values."""

    def __init__(self, metric: M, labels: tuple[str, ...], table: MetricTable) -> None:
        self.metric = metric
        self.labels = labels
        self._table = table
        self._has_role = ROLE in labels
        self._children: dict[tuple[str, ...], M] = {}

    def child(self, *values: str) -> M:
        """Return the child of these label values, in the declared order and without the role."""
        child = self._children.get(values)
        if child is None:
            full = (*values, self._table.role) if self._has_role else values
            child = self.metric.labels(*full) if self.labels else self.metric
            self._children[values] = child
        return child

    def forget(self, **wanted: str) -> None:
        """Drop all children with these label values, because the object they describe is gone."""
        if not wanted.keys() <= set(self.labels):
            return
        positions = {self.labels.index(label): value for label, value in wanted.items()}
        for values in [v for v in self._children if _has(v, positions)]:
            del self._children[values]
            self.metric.remove(*((*values, self._table.role) if self._has_role else values))

    def clear(self) -> None:
        """Drop all children; counting starts anew."""
        self._children.clear()
        self.metric.clear()

    def change_role(self) -> None:
        """Use another role: drop the cached children and the old role's gauges."""
        self._children.clear()
        if self._has_role and isinstance(self.metric, Gauge):
            self.metric.clear()


@dataclass(frozen=True, slots=True)
class Declared(Generic[M]):
    """A row of a table; accessed on an instance of the table, it returns the family."""

    name: str
    help: str
    labels: tuple[str, ...]
    make: Callable[[CollectorRegistry], M]

    @overload
    def __get__(self, table: None, owner: type[MetricTable]) -> Self: ...
    @overload
    def __get__(self, table: MetricTable, owner: type[MetricTable]) -> Family[M]: ...
    def __get__(self, table: MetricTable | None, owner: type[MetricTable]) -> Self | Family[M]:
        """Return the family of this table's instance."""
        if table is None:
            return self
        return table.families[self.name]


class MetricTable:
    """The base of metric tables, each with its own registry: no state is global.

    Args:
        role: The value of the ``replica_role`` label.
    """

    def __init__(self, *, role: str = "standalone") -> None:
        self.registry = CollectorRegistry()
        self.role = role
        self.families: dict[str, Family[Any]] = {
            row.name: Family(row.make(self.registry), row.labels, self) for row in self.rows()
        }

    @classmethod
    def rows(cls) -> list[Declared[Any]]:
        """Return the rows of the table and of its base classes, in order of declaration."""
        bodies = (vars(owner).values() for owner in reversed(cls.__mro__))
        return [value for body in bodies for value in body if isinstance(value, Declared)]

    def change_role(self, role: str) -> None:
        """Use another role from now on."""
        if role == self.role:
            return
        self.role = role
        for family in self.families.values():
            family.change_role()

    def forget(self, **wanted: str) -> None:
        """Drop every series with these label values, such as those of a deleted ClusterQueue."""
        for family in self.families.values():
            family.forget(**wanted)


def counter(name: str, help: str, labels: str = "") -> Declared[Counter]:  # noqa: A002
    """Declare a counter; by convention its name ends in ``_total``.

    Labels are words, separated by spaces.
    """
    return _declare(Counter, name, help, labels)


def gauge(name: str, help: str, labels: str = "") -> Declared[Gauge]:  # noqa: A002
    """Declare a gauge."""
    return _declare(Gauge, name, help, labels)


class _Unnamed(Generic[M]):
    """A metric that the registry collects without comparing its name with others."""

    def __init__(self, metric: M) -> None:
        self.collect = metric.collect

    def describe(self) -> Sequence[Metric]:
        """Return no name."""
        return ()


def gauge_beside_counter(name: str, help: str, labels: str = "") -> Declared[Gauge]:  # noqa: A002
    """Declare a gauge of the name that a counter has without its ``_total``.

    Kueue has such pairs. The text format, which is the only one served, tells them apart;
    the library's registry does not.
    """

    def make(registry: CollectorRegistry) -> Gauge:
        metric = Gauge(name, help, words(labels), registry=None)
        registry.register(_Unnamed(metric))
        return metric

    return Declared(name, help, words(labels), make)


def histogram(
    name: str,
    help: str,  # noqa: A002
    labels: str = "",
    *,
    buckets: Sequence[float],
) -> Declared[Histogram]:
    """Declare a histogram."""
    return _declare(Histogram, name, help, labels, buckets=buckets)


def _declare(
    kind: type[M],
    name: str,
    help: str,  # noqa: A002
    labels: str,
    **more: Any,
) -> Declared[M]:
    split = words(labels)
    return Declared(
        name, help, split, lambda registry: kind(name, help, split, registry=registry, **more)
    )


def _has(values: Sequence[str], wanted: Mapping[int, str]) -> bool:
    return all(
        position < len(values) and values[position] == value for position, value in wanted.items()
    )
