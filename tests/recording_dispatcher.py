"""A dispatcher that keeps what it was shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from multiqueue.plugins import DispatchView, Nomination


@dataclass
class Recording:
    """Sends everything to the first, and keeps what it was shown."""

    name: str = "recording"
    views: list[DispatchView] = field(default_factory=list)

    def nominate(self, view: DispatchView) -> Nomination:
        self.views.append(view)
        return Nomination(clusters=(view.clusters[0].name,))
