"""The job kinds that this manager queues: what it does for each, found by name or by kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multiqueue.api.config import Configuration
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Integration, Job
from multiqueue.jobs.framework.job_source import JobSource, SingleObjects
from multiqueue.jobs.framework.kind_webhook import KindWebhook, WebhookScope
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.store import Indexer

if TYPE_CHECKING:
    from multiqueue.jobs.context import ManagerContext, Runnable


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedKind:
    """All that the program does for one job kind.

    Attributes:
        integration: Turns an object into a Workload, starts it and stops it.
        webhook: Sets defaults and checks objects when they are created or changed.
        adapter: Copies objects to workers; None if they cannot run there.
        source: Finds the jobs of the kind.
        indexes: Indexes of the objects that the source needs.
        label_selector: The objects that are watched; all of them if it is empty.
        scope: Which objects the webhooks are asked about.
        controllers: Builds what reconciles the objects; None for the common reconciler of jobs.
        is_declared: Whether a JobKind declares the kind; it comes and goes at run time.
        is_external: Whether an outside controller makes the Workloads of the kind and starts its
            objects; no webhook is asked about them.
        owns_jobs: Whether an object of the kind can manage the jobs that it owns (J-25).
    """

    integration: Integration
    webhook: KindWebhook
    adapter: MultiKueueAdapter | None = None
    source: Callable[[ManagerContext, Integration], JobSource] = SingleObjects
    indexes: Mapping[str, Indexer[Job]] = field(default_factory=dict)
    label_selector: str = ""
    scope: Callable[[Configuration], WebhookScope] = lambda _: WebhookScope()
    controllers: Callable[[ManagerContext], Sequence[Runnable]] | None = None
    is_declared: bool = False
    is_external: bool = False
    owns_jobs: bool = True


RegistryListener = Callable[[SupportedKind], None]


class IntegrationRegistry:
    """The enabled kinds (M-131): the built-in ones, and those that JobKinds declare for now.

    Attributes:
        adapters: The MultiKueue adapters; a live view, which changes with the kinds.
        awaited: (group, kind) of declared kinds that are not queued for a reason that may pass:
            their jobs are left as they are.
        owners: External kinds whose objects can manage the jobs that they own, even before their
            objects are known.
    """

    def __init__(self, kinds: Iterable[SupportedKind] = ()) -> None:
        self._by_name: dict[str, SupportedKind] = {}
        self._by_gvk: dict[GroupVersionKind, SupportedKind] = {}
        self._adapters: dict[GroupVersionKind, MultiKueueAdapter] = {}
        self._on_added: list[RegistryListener] = []
        self._on_removed: list[RegistryListener] = []
        self.adapters: Collection[MultiKueueAdapter] = self._adapters.values()
        self.awaited: set[tuple[str, str]] = set()
        self.owners: set[GroupVersionKind] = set()
        for kind in kinds:
            self.add(kind)

    @property
    def kinds(self) -> tuple[SupportedKind, ...]:
        """The kinds, in the order in which they were added."""
        return tuple(self._by_name.values())

    @property
    def integrations(self) -> tuple[Integration, ...]:
        """The integrations of the kinds."""
        return tuple(kind.integration for kind in self._by_name.values())

    def add(self, kind: SupportedKind) -> None:
        """Queue a kind from now on; at run time, its informer must exist already.

        Raises:
            ValueError: the kind has an integration already.
        """
        gvk = kind.integration.gvk
        if gvk in self._by_gvk:
            raise ValueError(f"two integrations for {gvk}; keep one of them")
        self._by_gvk[gvk] = self._by_name[kind.integration.name] = kind
        if kind.adapter is not None:
            self._adapters[gvk] = kind.adapter
        for listener in self._on_added:
            listener(kind)

    def remove(self, kind: SupportedKind) -> None:
        """Do not queue a kind any more."""
        gvk = kind.integration.gvk
        del self._by_gvk[gvk], self._by_name[kind.integration.name]
        self._adapters.pop(gvk, None)
        for listener in self._on_removed:
            listener(kind)

    def add_listener(
        self, *, on_added: RegistryListener, on_removed: RegistryListener = lambda _: None
    ) -> None:
        """Call these at once for each kind that is added, or removed, from now on."""
        self._on_added.append(on_added)
        self._on_removed.append(on_removed)

    def is_awaited(self, gvk: GroupVersionKind) -> bool:
        """Whether a JobKind names this kind, but it is not queued for now."""
        return (gvk.group, gvk.kind) in self.awaited

    def find(self, name: str) -> Integration | None:
        """Return the integration of that framework name."""
        kind = self._by_name.get(name)
        return None if kind is None else kind.integration

    def find_kind(self, gvk: GroupVersionKind) -> SupportedKind | None:
        """Return what is done for a kind; the version does not matter."""
        found = self._by_gvk.get(gvk)
        if found is not None:
            return found
        same = (gvk.group, gvk.kind)
        gvks = ((known, kind) for known, kind in self._by_gvk.items())
        return next((kind for known, kind in gvks if (known.group, known.kind) == same), None)

    def find_by_gvk(self, gvk: GroupVersionKind) -> Integration | None:
        """Return the integration of that kind; the version does not matter."""
        kind = self.find_kind(gvk)
        return None if kind is None else kind.integration

    def find_adapter(self, gvk: GroupVersionKind) -> MultiKueueAdapter | None:
        """Return the MultiKueue adapter of exactly that kind."""
        kind = self._by_gvk.get(gvk)
        return None if kind is None else kind.adapter
