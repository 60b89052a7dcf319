"""The query options of a request for a pod's log, and the choice of its container."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, forbidden, invalid, invalid_message
from multiqueue.embedded.server.query import parse_int64
from multiqueue.embedded.server.request import ServerRequest
from multiqueue.embedded.server.status import StatusError, bad_request

KIND = "PodLogOptions"
CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
LIMITS = {
    "tailLines": (0, "must be greater than or equal to 0"),
    "limitBytes": (1, "must be greater than 0"),
    "sinceSeconds": (1, "must be greater than 0"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLogOptions:
    """How much of which log is wanted."""

    container: str = ""
    """Empty: the only one."""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


def parse_log_options(request: ServerRequest, name: str) -> PodLogOptions:
    """Read the query of a request for the log of a pod of this name.

    Raises:
        StatusError: 400, 422.
    """
    query = request.query
    numbers = {key: parse_int64(query[key]) for key in LIMITS if key in query}
    since = _time(query["sinceTime"]) if "sinceTime" in query else None
    if causes := _causes(query, numbers):
        details = {"name": name, "kind": KIND, "causes": [cause.as_dict() for cause in causes]}
        message = invalid_message(KIND, "", name, causes)
        raise StatusError(422, "Invalid", message, details=details)
    if (seconds := numbers.get("sinceSeconds")) is not None:
        since = _ago(request.objects.clock.now(), seconds)
    return PodLogOptions(
        container=query.get("container", ""),
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        since=since,
        tail_lines=numbers.get("tailLines"),
        limit_bytes=numbers.get("limitBytes"),
    )


def find_container(pod: Mapping[str, Any], wanted: str) -> str:
    """The container that is meant.

    Raises:
        StatusError: 400, the pod has several containers, or none of this name.
    """
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    names = [container["name"] for container in _containers(spec)]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    only: Sequence[Mapping[str, Any]] = spec.get("containers") or ()
    if len(only) != 1:
        choice = f", choose one of: [{' '.join(names)}]" if only else ""
        raise bad_request(f"a container name must be specified for pod {name}{choice}")
    first: str = only[0]["name"]
    return first


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in CONTAINER_LISTS:
        yield from spec.get(field) or ()


def _causes(query: Mapping[str, str], numbers: Mapping[str, int]) -> list[FieldCause]:
    causes = [
        invalid(key, number, LIMITS[key][1])
        for key, number in numbers.items()
        if number < LIMITS[key][0]
    ]
    if "sinceSeconds" in numbers and "sinceTime" in query:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes = [cause for cause in causes if cause.field != "sinceSeconds"]
        causes.append(forbidden("[]", text))
    if "stream" in query:
        causes.append(forbidden("stream", "may not be specified"))
    return causes


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise _no_time(text) from error
    if moment.tzinfo is None:
        raise _no_time(text)
    return moment


def _no_time(text: str) -> StatusError:
    return bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')


def _ago(now: datetime, seconds: int) -> datetime | None:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return None  # longer ago than anything
