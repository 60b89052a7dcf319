"""Logs of pods: ``GET .../pods/NAME/log``, whole or followed.

A real API server asks the kubelet of the pod's node. Here the lines come from a function of the
pod and one run of a container (see ``PodLog``), which whoever simulates the kubelets gives to the
server: nothing is stored, nothing can grow, and logs outlive the process. Which run is meant, and
what is said before there is one, is as in Kubernetes' kubelet.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from multiqueue.embedded.server import status
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.pod_logs.options import (
    PodLogOptions,
    find_container,
    parse_log_options,
)
from multiqueue.embedded.server.request import ServerRequest
from multiqueue.embedded.server.status import bad_request
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.watch import Watcher

NODES = ("", "nodes")
STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
Pod = Mapping[str, Any]
State = Mapping[str, Any]
"""``running`` or ``terminated`` of a container's status."""
Line = tuple[datetime, str]
PodLog = Callable[[Pod, str, State], Iterable[Line]]
"""From a pod, the name of a container and one of its runs to the lines so far, oldest first."""


def no_log(_pod: Pod, _container: str, _run: State) -> Iterable[Line]:
    """The log where nobody simulates anything."""
    return ()


async def get_log(
    pod_log: PodLog, request: ServerRequest, target: OperationTarget
) -> web.StreamResponse:
    """Answer a request for a log."""
    store = request.objects.store
    entry = target.find(store)
    if entry is None:
        raise status.not_found(target.kind, target.name)
    options = parse_log_options(request, target.name)
    pod = entry.decode()
    container = find_container(pod, options.container)
    node = pod["spec"].get("nodeName")
    if not node:
        return web.Response(status=204)
    if store.get(NODES, "", node) is None:
        raise status.not_found(target.kind, node)
    run = find_run(pod, container, previous=options.previous)
    printer = Printer(pod_log, container, options)
    text = printer.text(pod, run)
    if not options.follow or _is_over(run) or printer.is_full:
        return web.Response(body=text, content_type="text/plain")
    return await _follow(request, target, printer, text, entry)


def find_run(pod: Pod, container: str, *, previous: bool) -> State:
    """The run of a container whose log is meant.

    Raises:
        StatusError: 400, there is none yet, or none before this one.
    """
    name, found = pod["metadata"]["name"], _status_of(pod, container)
    state, last = found.get("state") or {}, (found.get("lastState") or {}).get("terminated")
    if previous:
        if last is None:
            raise bad_request(
                f'previous terminated container "{container}" in pod "{name}" not found'
            )
        return dict(last)
    run = state.get("running") or state.get("terminated") or last
    if run is not None:
        return dict(run)
    reason = (state.get("waiting") or {}).get("reason")
    if reason is None and (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        raise bad_request(f'container "{container}" in pod "{name}" is not available')
    why = reason or _reason_before_start(pod, container)
    raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')


@dataclass(slots=True)
class Printer:
    """Writes the lines of one run that were not written yet, as the options want them."""

    source: PodLog
    container: str
    options: PodLogOptions
    count: int = 0
    """Lines of the run that were looked at."""
    size: int = 0
    is_full: bool = field(default=False, init=False)

    def text(self, pod: Pod, run: State) -> bytes:
        """The new lines."""
        lines = list(self.source(pod, self.container, run))
        new, options = lines[self.count :], self.options
        if options.tail_lines is not None and not self.count:
            new = new[len(new) - min(options.tail_lines, len(new)) :]
        self.count = max(self.count, len(lines))
        if options.since is not None:
            new = [line for line in new if line[0] >= options.since]
        text = "".join(f"{self._stamp(moment)}{words}\n" for moment, words in new).encode()
        if options.limit_bytes is not None:
            text = text[: options.limit_bytes - self.size]
            self.size += len(text)
            self.is_full = self.size >= options.limit_bytes
        return text

    def _stamp(self, moment: datetime) -> str:
        if not self.options.timestamps:
            return ""
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ")


async def _follow(
    request: ServerRequest,
    target: OperationTarget,
    printer: Printer,
    text: bytes,
    entry: StoredObject,
) -> web.StreamResponse:
    """Send what is there and what comes, until the run is over."""
    store, key = request.objects.store, target.kind.key
    started = find_run(entry.decode(), printer.container, previous=False).get("startedAt")
    watcher = Watcher(
        namespace=target.namespace,
        matches=lambda each: each.name == target.name and each.uid == entry.uid,
        since=entry.revision,
    )
    for event in store.changes_since(key, entry.revision):
        watcher.offer(event)
    store.watch(key, watcher)
    response = web.StreamResponse()
    response.content_type = "text/plain"
    response.enable_chunked_encoding()
    try:
        await response.prepare(request.http)
        if text:
            await response.write(text)
        while not watcher.closed:
            await watcher.wait()
            for notice in watcher.take(1):
                pod = notice.entry.decode()
                run = _run_started_at(pod, printer.container, started)
                if run is not None and (text := printer.text(pod, run)):
                    await response.write(text)
                if run is None or _is_over(run) or printer.is_full or notice.type == "DELETED":
                    watcher.close()
        await response.write_eof()
    except ConnectionError:
        return response
    finally:
        store.unwatch(key, watcher)
    return response


def _run_started_at(pod: Pod, container: str, started: Any) -> State | None:
    """The run that is followed; None: others came after it."""
    found = _status_of(pod, container)
    state, last = found.get("state") or {}, found.get("lastState") or {}
    runs = (state.get("running"), state.get("terminated"), last.get("terminated"))
    return next((run for run in runs if run and run.get("startedAt") == started), None)


def _is_over(run: State) -> bool:
    return "exitCode" in run


def _status_of(pod: Pod, container: str) -> Mapping[str, Any]:
    for name in STATUS_LISTS:
        for found in (pod.get("status") or {}).get(name) or ():
            if found["name"] == container:
                result: Mapping[str, Any] = found
                return result
    return {}


def _reason_before_start(pod: Pod, container: str) -> str:
    """What a kubelet reports of a pod that it has not started yet."""
    steps = [each["name"] for each in pod["spec"].get("initContainers") or ()]
    return "PodInitializing" if steps and container not in steps else "ContainerCreating"
