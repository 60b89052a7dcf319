"""AppWrappers on workers: their objects are made there only. Pure. Parity: J-484."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from multiqueue.jobs.appwrapper.integration import AppWrapper
from multiqueue.jobs.framework.copy_adapter import CopyAdapter
from multiqueue.jobs.framework.integration import Finished, Job

SUCCESS_TTL = "workload.codeflare.dev.appwrapper/successTTLDuration"


class AppWrapperAdapter(CopyAdapter):
    """The adapter of AppWrappers: their end is a phase."""

    def __init__(self, kind: AppWrapper) -> None:
        super().__init__(kind, dropped=(("metadata", "annotations", SUCCESS_TTL),))

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Set the phase of an AppWrapper that ended; nothing of it is left on the worker."""
        if self.kind.finished(local) is not None:
            return None
        phase = "Succeeded" if end.success else "Failed"
        return {"status": {"phase": phase, "conditions": []}}
