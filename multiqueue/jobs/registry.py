"""The job kinds that this manager knows, by name and by kind, and those that can be dispatched."""

from __future__ import annotations

from collections.abc import Iterable

from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Integration
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter


class IntegrationRegistry:
    """The enabled integrations and MultiKueue adapters (M-131); fixed once the manager runs."""

    def __init__(
        self,
        integrations: Iterable[Integration] = (),
        adapters: Iterable[MultiKueueAdapter] = (),
    ) -> None:
        self.integrations = tuple(integrations)
        self.adapters = tuple(adapters)
        self._by_name = {integration.name: integration for integration in self.integrations}
        self._by_gvk = {integration.gvk: integration for integration in self.integrations}
        self._adapter_by_gvk: dict[GroupVersionKind, MultiKueueAdapter] = {}
        for adapter in self.adapters:
            if adapter.gvk in self._adapter_by_gvk:
                raise ValueError(f"two MultiKueue adapters for {adapter.gvk}; keep one of them")
            self._adapter_by_gvk[adapter.gvk] = adapter

    def find(self, name: str) -> Integration | None:
        """Return the integration of that framework name."""
        return self._by_name.get(name)

    def find_by_gvk(self, gvk: GroupVersionKind) -> Integration | None:
        """Return the integration of that kind; the version does not matter."""
        found = self._by_gvk.get(gvk)
        if found is not None:
            return found
        return next(
            (i for i in self.integrations if (i.gvk.group, i.gvk.kind) == (gvk.group, gvk.kind)),
            None,
        )

    def find_adapter(self, gvk: GroupVersionKind) -> MultiKueueAdapter | None:
        """Return the MultiKueue adapter of that kind."""
        return self._adapter_by_gvk.get(gvk)
