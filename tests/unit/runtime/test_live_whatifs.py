"""How much a live what-if may take: time, and Workloads."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.config import Configuration
from multiqueue.api.serde import decode
from multiqueue.kube.clock import SystemClock
from multiqueue.runtime.live_whatifs import MAX_WORKLOADS, LiveWhatIfs
from multiqueue.visibility.fleet.whatifs import WhatIfFailure, WhatIfProblem, WhatIfQuestion

PATIENCE = 100.0
"""The process of a what-if has the lowest priority: on a busy machine it takes long to begin."""


class Stored(list[Any]):
    """The objects of an informer."""

    def list(self) -> Any:
        return self

    def keys(self) -> Any:
        return ()


def make_whatifs(*workloads: api.Workload, seconds: float = PATIENCE) -> LiveWhatIfs:
    """What-ifs of a manager that knows these Workloads and nothing else."""
    stores: Any = defaultdict(lambda: SimpleNamespace(store=Stored()))
    stores["workloads"].store.extend(workloads)

    class Informers:
        def __getattr__(self, name: str) -> Any:
            return stores[name]

    context = SimpleNamespace(informers=Informers(), config=Configuration(), clock=SystemClock())
    fleet: Any = SimpleNamespace(connections=())
    return LiveWhatIfs(cast("Any", context), fleet, cast("Any", None), seconds=seconds)


def make_workload() -> api.Workload:
    spec = {"queueName": "q", "podSets": []}
    return decode(api.Workload, {"metadata": {"name": "w", "namespace": "a"}, "spec": spec})


def list_children() -> list[str]:
    """The command lines of the processes that this one started."""
    threads = Path(f"/proc/{os.getpid()}/task").iterdir()
    pids = [pid for thread in threads for pid in read_if_there(thread / "children").split()]
    commands = [read_if_there(Path(f"/proc/{pid}/cmdline")).replace("\0", " ") for pid in pids]
    return [each for each in commands if "multiqueue.whatif.child" in each]


def read_if_there(file: Path) -> str:
    """Return what a file of a thread or process says; nothing if that has ended."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def test_a_small_fleet_is_answered() -> None:
    answer = await make_whatifs(make_workload()).try_out(WhatIfQuestion())
    assert answer["workloads"] == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
async def test_what_takes_too_long_is_stopped_and_its_process_is_gone() -> None:
    with pytest.raises(WhatIfFailure, match=r"took longer than .* and was stopped") as caught:
        await make_whatifs(make_workload(), seconds=0.02).try_out(WhatIfQuestion())
    assert caught.value.problem is WhatIfProblem.TOO_SLOW
    assert list_children() == []


async def test_more_workloads_than_can_be_tried_in_time_are_refused() -> None:
    workloads = [make_workload()] * (MAX_WORKLOADS + 1)
    with pytest.raises(WhatIfFailure, match="more than 20,000 unfinished Workloads") as caught:
        await make_whatifs(*workloads).try_out(WhatIfQuestion())
    assert caught.value.problem is WhatIfProblem.TOO_LARGE
