"""What-ifs on the live fleet: the manager's objects, tried out in a process of its own.

The objects are those of the informers at one moment: the lists are taken in one turn of the event
loop, and objects are never changed. They are encoded afterwards, in short turns. A decision that
is not written yet is in neither world; both worlds make it again.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import orjson

from multiqueue import __version__
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import Reason
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import is_finished
from multiqueue.forecast.manager_starts import ManagerStarts
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import NODES
from multiqueue.visibility.fleet.whatifs import WhatIfFailure, WhatIfProblem, WhatIfQuestion
from multiqueue.whatif.contents import keep_configuration
from multiqueue.whatif.snapshot import MANAGER
from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]
SECONDS = 20.0
"""How long a what-if may take, with all that is read for it."""
TURN_SECONDS = 0.005
"""After this time the event loop does other work."""
MAX_WORKLOADS = 20_000
"""Unfinished Workloads; with more the answer would not come in time."""
MAX_ANSWER = 64 * 1024 * 1024
Taken = tuple[str, str, Any]
"""Cluster, kind and object."""
ELSEWHERE = "use multiqueue snapshot, and multiqueue replay --what-if"
ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""What the process gets of the manager's environment: it needs no credentials."""
PROBLEMS = {
    "change": WhatIfProblem.INVALID,
    "snapshot": WhatIfProblem.FAILED,
    "too large": WhatIfProblem.TOO_LARGE,
}


class LiveWhatIfs:
    """Tries changes out on what the manager knows; a `WhatIfSource`.

    Args:
        context: The manager's context.
        fleet: The workers.
        starts: Estimates when a job that waits would start.
        seconds: How long a what-if may take.
    """

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        starts: ManagerStarts,
        *,
        seconds: float = SECONDS,
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._starts = starts
        self._seconds = seconds

    async def try_out(self, question: WhatIfQuestion) -> Json:
        """Return what a change would make different.

        Raises:
            WhatIfFailure: there is no answer; it says why.
        """
        try:
            async with asyncio.timeout(self._seconds):
                objects = [*await self._read_nodes(), *self._take()]
                header = {
                    "changes": list(question.changes),
                    "job": question.job,
                    "namespace": question.job_namespace,
                    "snapshot": self._describe(objects),
                }
                answer = await _compute(header, objects)
        except TimeoutError:
            raise WhatIfFailure(
                WhatIfProblem.TOO_SLOW,
                f"the what-if took longer than {self._seconds:g} s and was stopped; {ELSEWHERE}",
            ) from None
        if "error" in answer:
            raise WhatIfFailure(PROBLEMS[answer["error"]], answer["message"])
        if question.job is not None:
            await self._add_start(answer["job"])
        return answer

    async def _add_start(self, job: Json) -> None:
        """Add when the job would start, and take its imagined Workload out of the answer."""
        workload = decode(api.Workload, job.pop("object"))
        job["start"] = None
        if not job["order"]:
            reason = Reason(job["reason"] or Reason.PENDING_EVALUATION)
            job["start"] = await self._starts.foresee(workload, reason, job["why"])

    async def _read_nodes(self) -> list[Taken]:
        """Return the nodes if a topology needs them; the manager keeps only parts of them."""
        if not len(self._context.informers.topologies.store):
            return []
        listed = await self._context.client.list(NODES, decode=bytes)
        return [(MANAGER, "Node", node) for node in listed.items]

    def _take(self) -> list[Taken]:
        """Return all objects of this moment: cluster, kind, object."""
        informers = self._context.informers
        own: list[tuple[str, Informer[Any]]] = [
            ("ResourceFlavor", informers.resource_flavors),
            ("Topology", informers.topologies),
            ("AdmissionCheck", informers.admission_checks),
            ("DisruptionPolicy", informers.disruption_policies),
            ("Cohort", informers.cohorts),
            ("ClusterQueue", informers.cluster_queues),
            ("LocalQueue", informers.local_queues),
            ("WorkloadPriorityClass", informers.priority_classes),
            ("MultiKueueConfig", informers.multikueue_configs),
            ("MultiKueueCluster", informers.multikueue_clusters),
            ("Namespace", informers.namespaces),
            ("LimitRange", informers.limit_ranges),
            ("RuntimeClass", informers.runtime_classes),
            ("PriorityClass", informers.kube_priority_classes),
            ("Workload", informers.workloads),
        ]
        found = [(MANAGER, kind, obj) for kind, each in own for obj in each.store.list()]
        for connection in self._fleet.connections:
            session = connection.session
            if session is None or not all(
                each.synced.is_set() for each in session.informers.queues
            ):
                continue
            there = session.informers
            for kind, informer in (
                ("ResourceFlavor", there.flavors),
                ("Cohort", there.cohorts),
                ("ClusterQueue", there.cluster_queues),
                ("LocalQueue", there.local_queues),
            ):
                found += [(connection.name, kind, obj) for obj in informer.store.list()]
        return found

    def _describe(self, objects: list[Taken]) -> Json:
        known = {cluster for cluster, _, _ in objects}
        names = sorted(self._context.informers.multikueue_clusters.store.keys())
        notes = [
            f"worker {name} is left out, so it counts as able to hold anything: its queues are not "
            "known now"
            for name in names
            if name not in known
        ]
        if any(kind == "Topology" for _, kind, _ in objects):
            notes.append(
                "pods that no topology placed are left out: nodes look emptier than they are"
            )
        return {
            "time": format_time(self._context.clock.now()),
            "program": f"multiqueue {__version__}",
            "configuration": keep_configuration(self._context.config),
            "notes": notes,
        }


async def _compute(header: Json, objects: list[Taken]) -> Json:
    """Ask a process; it is killed if this is cancelled."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "multiqueue.whatif.child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        limit=MAX_ANSWER,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    reading = asyncio.ensure_future(process.stdout.read())
    try:
        with suppress(ConnectionError):  # it ended early, and its answer says why
            await _send(process.stdin, header, objects)
        output = await reading
        await process.wait()
    finally:
        reading.cancel()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode or not output:
        raise WhatIfFailure(
            WhatIfProblem.FAILED,
            f"the process that tries changes out ended with {process.returncode} and no answer",
        )
    answer: Json = orjson.loads(output)
    return answer


async def _send(pipe: asyncio.StreamWriter, header: Json, objects: list[Taken]) -> None:
    clock = asyncio.get_running_loop().time
    pieces, until = [orjson.dumps(header)], clock() + TURN_SECONDS
    workloads = 0
    for cluster, kind, obj in objects:
        if kind == "Workload":
            if is_finished(obj.status):
                continue
            workloads += 1
            if workloads > MAX_WORKLOADS:
                raise _too_many()
        pieces.append(_encode(cluster, kind, obj))
        if clock() >= until:
            pipe.write(b"\n".join(pieces) + b"\n")
            pieces = []
            await pipe.drain()
            await asyncio.sleep(0)
            until = clock() + TURN_SECONDS
    pipe.write(b"\n".join([*pieces, b""]))
    pipe.write_eof()
    await pipe.drain()


def _encode(cluster: str, kind: str, obj: Any) -> bytes:
    if isinstance(obj, Mapping):
        obj = orjson.dumps(obj)
    elif not isinstance(obj, bytes):
        obj = msgspec.json.encode(obj)
    return b'{"cluster":%s,"kind":"%s","object":%s}' % (orjson.dumps(cluster), kind.encode(), obj)


def _too_many() -> WhatIfFailure:
    return WhatIfFailure(
        WhatIfProblem.TOO_LARGE,
        f"there are more than {MAX_WORKLOADS:,} unfinished Workloads, with which the manager tries "
        f"nothing out; {ELSEWHERE}",
    )
