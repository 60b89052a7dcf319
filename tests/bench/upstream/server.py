"""What the benchmark reads from kube-apiserver: counts of requests, and changes of Workloads."""

from __future__ import annotations

import http.client
import re
import ssl
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from tests.bench.upstream.course import Course, SeenWorkload
from tests.controlplane.plane import ADMIN_TOKEN, RealControlPlane

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads?watch=1&timeoutSeconds=7200&resourceVersion={}"
PIECE_BYTES = 1 << 20
WRITES = {"POST", "PUT", "PATCH", "APPLY"}
"""Nothing is deleted in a run; what the runner clears away afterwards is not counted."""
SAMPLE = re.compile(r"^(\w+)\{(.*)\} ([0-9.e+-]+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
CONFLICT = "409"


class Sample(NamedTuple):
    """One value of a metric with its labels."""

    labels: dict[str, str]
    value: float

    @property
    def kind(self) -> str:
        """Resource and subresource, as in "workloads/status"."""
        parts = self.labels["resource"], self.labels.get("subresource", "")
        return "/".join(part for part in parts if part)


def read_samples(text: str, name: str) -> Iterator[Sample]:
    """Yield the samples of one metric from a page in Prometheus's format."""
    for found in SAMPLE.finditer(text):
        if found[1] == name:
            yield Sample(dict(LABEL.findall(found[2])), float(found[3]))


def quantile(text: str, name: str, share: float, **labels: str) -> float:
    """Return a quantile of a histogram, as Prometheus estimates it within a bucket.

    Args:
        text: The page of metrics.
        name: The histogram's name.
        share: Of all observations, 0 to 1.
        labels: Which of its samples count.
    """
    buckets = sorted(
        (float(each.labels["le"]), each.value)
        for each in read_samples(text, f"{name}_bucket")
        if labels.items() <= each.labels.items()
    )
    wanted = share * buckets[-1][1]
    below, fewer = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted and count > fewer:
            if bound == float("inf"):
                return below
            return below + (bound - below) * (wanted - fewer) / (count - fewer)
        below, fewer = bound, count
    return below


@dataclass(frozen=True, slots=True)
class Requests:
    """What a server was asked to write until now."""

    writes: Counter[tuple[str, str]]
    """What it wrote, by kind ("workloads/status") and verb ("PATCH")."""
    conflicts: int
    """What it refused, since the object had changed."""
    seconds: float
    """All writes of Workload statuses together, each from its arrival to its answer."""
    timed: float
    """How many of them."""


def read_requests(text: str) -> Requests:
    """Return what a page of kube-apiserver's metrics says about writes."""
    writes: Counter[tuple[str, str]] = Counter()
    conflicts = 0
    for each in read_samples(text, "apiserver_request_total"):
        if each.labels["verb"] in WRITES and each.labels["code"] == CONFLICT:
            conflicts += int(each.value)
        elif each.labels["verb"] in WRITES and each.labels["code"].startswith("2"):
            writes[each.kind, each.labels["verb"]] += int(each.value)
    seconds, timed = (
        sum(
            each.value
            for each in read_samples(text, f"apiserver_request_duration_seconds_{part}")
            if each.kind == "workloads/status" and each.labels["verb"] in WRITES
        )
        for part in ("sum", "count")
    )
    return Requests(writes, conflicts, seconds, timed)


def watched_kinds(text: str) -> set[str]:
    """Return the resources that somebody watches now."""
    return {
        each.labels["resource"]
        for each in read_samples(text, "apiserver_longrunning_requests")
        if each.labels["verb"] == "WATCH" and each.value > 0
    }


def read_metrics(plane: RealControlPlane) -> str:
    """Return the page of metrics of a control plane's server."""
    with urllib.request.urlopen(
        _request(plane, "/metrics"), timeout=30, context=_trust(plane)
    ) as answer:
        return str(answer.read().decode())


class Change(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: SeenWorkload


@dataclass
class WorkloadWatch:
    """A watch of all Workloads in a thread of its own: one line is read in some 20 us."""

    plane: RealControlPlane
    course: Course = field(default_factory=Course)
    broken: BaseException | None = None

    def start(self) -> None:
        """Begin to watch; ends with the process, or if the server refuses."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(Change)
        newest = ""
        try:
            while True:  # a server ends the watch of a reader that had no CPU time for a moment
                for line in self._read_lines(newest):
                    seen = decoder.decode(line).object
                    newest = seen.metadata.resource_version
                    self.course.see(time.monotonic(), seen)
        except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
            self.broken = error

    def _read_lines(self, newest: str) -> Iterator[bytes]:
        request = _request(self.plane, WORKLOADS.format(newest))
        with urllib.request.urlopen(request, timeout=None, context=_trust(self.plane)) as answer:
            rest = b""
            while piece := answer.read1(PIECE_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                yield from lines


def _request(plane: RealControlPlane, path: str) -> urllib.request.Request:
    return urllib.request.Request(
        f"{plane.url}{path}", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}
    )


def _trust(plane: RealControlPlane) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(plane.folder / "ca.crt"))
