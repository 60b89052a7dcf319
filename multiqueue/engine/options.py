"""What the Configuration changes about the engine's decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Fixed when the engine is made.

    Args:
        wake_batch: how long after the first notification parked workloads are looked at again;
            one second as E-27 has it, which lets a burst of finished jobs wake a queue once.
        decision_budget: heads judged per `Engine.run_cycle`, so that one call stays below the
            20 ms in which the event loop wants control back. At about 40 us a decision, 400 fit.
        partial_admission: whether pod sets with a minimum count may be admitted smaller (E-60).
        ignore_undeclared: quotaCheckStrategy IgnoreUndeclared: resources that no resource group
            covers need no quota (E-61).
    """

    wake_batch: timedelta = timedelta(seconds=1)
    decision_budget: int = 400
    partial_admission: bool = True
    ignore_undeclared: bool = False
