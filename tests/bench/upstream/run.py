"""One run: a fresh control plane, one manager, upstream's runner, and what they used."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from multiqueue.serving.free_ports import find_free_ports
from tests.bench.upstream import programs
from tests.bench.upstream.course import Course
from tests.bench.upstream.server import (
    Requests,
    WorkloadWatch,
    quantile,
    read_metrics,
    read_requests,
    watched_kinds,
)
from tests.controlplane.installed import CONFIG
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream

OURS, UPSTREAM = "ours", "upstream"
NO_LIMIT = 0
"""As a limit of requests per second."""
UNLIMITED_QPS = 100_000
SERVER_ARGUMENTS = ("--max-requests-inflight=5000", "--max-mutating-requests-inflight=2500")
"""As upstream starts the server of its benchmark."""
RUNNER_LIMITS = ("-qps=1000", "-burst=2000")
"""As upstream starts its runner."""
WATCHED = {"workloads", "clusterqueues", "localqueues", "resourceflavors"}
"""A manager that watches these is ready."""
THEIRS = {"leases", "namespaces", "nodes", "nodes/status", "topologies"}
"""Kinds that no manager writes in this benchmark."""
QUEUE_STATUSES = ("clusterqueues/status", "localqueues/status", "cohorts/status")
TOLD = {"events", *QUEUE_STATUSES}
"""Kinds that people read, and that a manager need not write while it admits."""
LOOK_SECONDS = 0.2
QUIET_SECONDS, SETTLE_SECONDS = 2.0, 30.0
"""Events are written behind what matters more: a run ends when no write was counted for so long,
and at the latest so long after the runner."""
CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {frameworks: [batch/job]}
leaderElection: {leaderElect: false}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "0"}
webhook: {port: 0}
internalCertManagement: {enable: false}
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is run: whose manager, which generator, and how many requests per second."""

    program: str
    generator: str
    limit: int
    part: float


@dataclass(frozen=True, slots=True)
class Used:
    """What a process used."""

    cpu_seconds: float
    peak_mib: float


def measure(setting: Setting, folder: Path, seconds: float) -> dict[str, Any]:
    """Run the benchmark once, and return its figures as they go into the JSON.

    Args:
        setting: What is run.
        folder: Where everything that is written goes.
        seconds: How long the runner may take.

    Raises:
        RuntimeError: The runner failed, or not all Workloads finished; says where the logs lie.
    """
    generator = programs.read_generator(setting.generator)
    generator = programs.scale(setting.generator, generator, setting.part)
    with RealControlPlane(
        folder / "plane", controllers=False, extra_arguments=SERVER_ARGUMENTS
    ) as plane:
        install(setting, plane)
        (port,) = find_free_ports(1)
        with running_manager(setting, plane.kubeconfig, folder, port) as manager:
            until(lambda: watched_kinds(read_metrics(plane)) >= WATCHED, "watches of the manager")
            pids = {
                "manager": manager.pid,
                "kube-apiserver": plane.pid_of("kube-apiserver"),
                "etcd": plane.pid_of("etcd"),
            }
            before = read_requests(read_metrics(plane))
            idle = {name: _used(pid) for name, pid in pids.items()}
            watch = WorkloadWatch(plane)
            watch.start()
            load = os.getloadavg()[0]
            last = programs.with_last_cohort(generator)
            count = programs.count_workloads(generator)
            until_end = _AtTheEnd(plane, watch, count)
            runner = _run_runner(plane, last, folder, seconds, until_end.look)
            # The runner may end before the watch shows the last end.
            at_the_end = until_end.requests or read_requests(read_metrics(plane))
            after = _settled(plane)
            seconds_to_answer = _read_seconds_to_answer(port) if setting.program == OURS else None
            used = {name: _used(pid) for name, pid in pids.items()}
    spent = {
        name: Used(each.cpu_seconds - idle[name].cpu_seconds, each.peak_mib)
        for name, each in used.items()
    } | {"runner": runner}
    figures = describe(watch.course, before, after, programs.cohort_cores(generator))
    _require_all_finished(watch.course, count, folder)
    return {
        **asdict(setting),
        "workloads": count,
        **figures,
        "secondsToAnswerP99": seconds_to_answer,
        "toldUntilTheEnd": _count_told(at_the_end.writes - before.writes),
        "processes": {
            name: {"cpuSeconds": round(each.cpu_seconds, 2), "peakMiB": round(each.peak_mib)}
            for name, each in spent.items()
        },
        "loadBefore": round(load, 1),
        "loadAfter": round(os.getloadavg()[0], 1),
    }


def _read_seconds_to_answer(port: int) -> float:
    """Return the p99 of the seconds from what makes room to the answer to the admission."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    return round(quantile(page, "multiqueue_stage_seconds", 0.99, stage="reserve"), 3)


class _AtTheEnd:
    """Counts the requests until the last Workload ends: what can wait is written afterwards, too.

    Attributes:
        requests: The counts; None before that end.
    """

    def __init__(self, plane: RealControlPlane, watch: WorkloadWatch, count: int) -> None:
        self._plane = plane
        self._watch = watch
        self._count = count
        self.requests: Requests | None = None

    def look(self) -> None:
        """Count once, when all have finished.

        Raises:
            RuntimeError: The watch of the Workloads broke.
        """
        if self._watch.broken is not None:
            raise RuntimeError(f"the watch of Workloads broke: {self._watch.broken}")
        if self.requests is None and self._watch.course.finished == self._count:
            self.requests = read_requests(read_metrics(self._plane))


def _count_told(writes: Counter[tuple[str, str]]) -> int:
    """Return how many Events and statuses of queues are among the writes."""
    return sum(count for (kind, _), count in writes.items() if kind in TOLD)


def _require_all_finished(course: Course, count: int, folder: Path) -> None:
    if course.finished != count:
        raise RuntimeError(
            f"{course.finished} of {count} Workloads finished: see {folder}. Upstream's runner"
            " ends when all Workloads are created and no queue's status says that something waits"
            f" or runs. Give it more time than {programs.LAST_SECONDS:g} s (LAST_SECONDS in"
            " tests/bench/upstream/programs.py) if statuses come later than that"
        )


def describe(course: Course, before: Requests, after: Requests, cores: int) -> dict[str, Any]:
    """Return the figures of a run; what others write is left out of the manager's writes."""
    writes = after.writes - before.writes
    managers = writes - writes_of_others(course, writes)
    timed = after.timed - before.timed
    return {
        "wallSeconds": round(course.wall_seconds(), 1),
        "usageWhileWorkWaits": round(course.usage_while_work_waits(cores), 3),
        "secondsToAdmission": {
            name: round(seconds, 2) for name, seconds in course.seconds_to_admission().items()
        },
        "admissions": course.counts["admitted"],
        "evictions": course.counts["evicted"],
        "managerWrites": _named(managers),
        "allWrites": _named(writes),
        "conflicts": after.conflicts - before.conflicts,
        "statusWriteMilliseconds": round((after.seconds - before.seconds) / timed * 1000, 2)
        if timed
        else 0.0,
    }


def writes_of_others(course: Course, writes: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return what the runner and the server itself wrote.

    The server renews a Lease. The runner creates Workloads and what is around them, finishes each
    Workload, and takes the quota of each that was evicted.
    """
    others = Counter(
        {
            (kind, verb): count
            for (kind, verb), count in writes.items()
            if kind in THEIRS or (verb == "POST" and kind != "events")
        }
    )
    left = course.counts["finished"] + course.counts["stopped"]
    for verb in ("APPLY", "PATCH", "PUT"):  # the runner applies
        others["workloads/status", verb] = min(left, writes["workloads/status", verb])
        left -= others["workloads/status", verb]
    return others


def _named(writes: Counter[tuple[str, str]]) -> dict[str, int]:
    return {f"{verb} {kind}": count for (kind, verb), count in sorted(writes.items()) if count}


def install(setting: Setting, plane: RealControlPlane) -> None:
    """Create the kinds that the manager of the setting needs."""
    if setting.program == UPSTREAM:
        install_upstream(plane)
        return
    plane.kubectl("apply", "--server-side", "-k", str(CONFIG / "crd"))
    plane.wait_until_served()


@contextlib.contextmanager
def running_manager(
    setting: Setting, kubeconfig: Path, folder: Path, port: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the manager of the setting, without webhooks as upstream's benchmark does.

    Args:
        setting: The setting.
        kubeconfig: Of the control plane.
        folder: Where its log goes.
        port: Where ours shows its metrics; None: nowhere.
    """
    if setting.program == UPSTREAM:
        name = programs.LIMITED if setting.limit else programs.UNLIMITED
        command = [str(programs.cache_folder() / name), f"--kubeconfig={kubeconfig}"]
        if setting.generator == "tas":
            command.append("--enableTAS")
    else:
        config = folder / "config.yaml"
        qps = setting.limit or UNLIMITED_QPS
        more: dict[str, Any] = {"clientConnection": {"qps": qps, "burst": 2 * qps}}
        if port is not None:
            more["metrics"] = {"bindAddress": f"127.0.0.1:{port}"}
        config.write_text(yaml.safe_dump(yaml.safe_load(CONFIGURATION) | more))
        command = [sys.executable, "-m", "multiqueue", "run", "--no-webhooks"]
        command += [f"--config={config}", f"--kubeconfig={kubeconfig}"]
        command += ["--log-level=warning"]
    with _running(command, folder / "manager.log") as process:
        yield process


@contextlib.contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _run_runner(
    plane: RealControlPlane,
    generator: dict[str, Any],
    folder: Path,
    seconds: float,
    look: Callable[[], None],
) -> Used:
    """Run upstream's runner until it has written its summary."""
    out = folder / "runner"
    # It cannot write this file, and so it ends before it deletes what it has made.
    (out / "wlStates.csv").mkdir(parents=True)
    config = folder / "generator.yaml"
    config.write_text(json.dumps(generator))
    command = [str(programs.cache_folder() / programs.RUNNER), f"-o={out}"]
    command += [f"-generatorConfig={config}", f"-timeout={int(seconds)}s", *RUNNER_LIMITS]
    command += [f"-kubeconfig={plane.kubeconfig}", "-zap-log-level=error"]
    used = Used(0, 0)
    with _running(command, folder / "runner.log") as process:
        while process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                used = _used(process.pid)
            look()
            time.sleep(LOOK_SECONDS)
    if not (out / "summary.yaml").exists():
        raise RuntimeError(f"upstream's runner has failed: see {folder / 'runner.log'}")
    return used


def _settled(plane: RealControlPlane) -> Requests:
    """Return the counts when nothing is written any more."""
    deadline = time.monotonic() + SETTLE_SECONDS
    last = read_requests(read_metrics(plane))
    while time.monotonic() < deadline:
        time.sleep(QUIET_SECONDS)
        newest = read_requests(read_metrics(plane))
        if newest.writes == last.writes:
            break
        last = newest
    return newest


def _used(pid: int) -> Used:
    """Return the CPU time of a process so far and its highest resident memory.

    Raises:
        ProcessLookupError: It has ended, and has no memory any more.
    """
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(after_name[11]) + int(after_name[12])
    status = Path(f"/proc/{pid}/status").read_text()
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    if not peaks:
        raise ProcessLookupError(f"process {pid} has ended")
    return Used(ticks / os.sysconf("SC_CLK_TCK"), int(peaks[0]) / 1024)
