"""The topics of a feed: what a reader wants to follow. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from multiqueue.visibility.fleet.resources import (
    BY_TOPIC,
    LINES,
    STANDINGS,
    STORIES,
    FleetResource,
)
from multiqueue.visibility.fleet.standings import namespace_of
from multiqueue.visibility.refusals import bad_request

MAX_TOPICS = 8
DEFAULT_SECONDS, MIN_SECONDS, MAX_SECONDS = 0.25, 0.1, 10.0
_INTERVAL = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s)")


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        text: The topic as it was asked for.
        resource: The resource whose rows it has.
        namespace: The namespace of the rows; empty: all, or the cluster scope.
        name: The object of a `line` or `story`.
    """

    text: str
    resource: FleetResource
    namespace: str = ""
    name: str = ""

    @property
    def is_document(self) -> bool:
        """Whether it is read as a whole: its rows have no changes of their own."""
        return self.resource in {LINES, STORIES}

    def has(self, key: str) -> bool:
        """Whether a row belongs to it."""
        return not self.namespace or namespace_of(key) == self.namespace


def read_topics(query: Mapping[str, str]) -> list[Topic]:
    """Read ``topics``.

    Raises:
        StatusRefusal: 400, names what is wrong.
    """
    texts = [text.strip() for text in (query.get("topics") or "").split(",") if text.strip()]
    known = ", ".join(BY_TOPIC)
    if not texts:
        raise bad_request(f"topics: Required value: name at least one of {known}")
    if len(texts) > MAX_TOPICS:
        raise bad_request(f"topics: Invalid value: {len(texts)}: a stream has at most {MAX_TOPICS}")
    topics = {text: _read_topic(text, known) for text in texts}
    return list(topics.values())


def _read_topic(text: str, known: str) -> Topic:
    kind, _, what = text.partition(":")
    resource = BY_TOPIC.get(kind)
    if resource is None:
        raise bad_request(f'topics: Invalid value: "{text[:80]}": must be one of {known}')
    namespace, _, name = what.rpartition("/")
    if resource is STANDINGS and "/" not in what:
        return Topic(text, resource, namespace=what)
    if resource is LINES and what:
        return Topic(text, resource, namespace=namespace, name=name)
    if resource is STORIES and namespace and name:
        return Topic(text, resource, namespace=namespace, name=name)
    if what or resource in {LINES, STORIES}:
        wanted = "standings:NAMESPACE, line:QUEUE, line:NAMESPACE/QUEUE or story:NAMESPACE/NAME"
        raise bad_request(f'topics: Invalid value: "{text[:80]}": must be {wanted}')
    return Topic(text, resource)


def read_interval(query: Mapping[str, str]) -> float:
    """Read ``interval`` in seconds.

    Raises:
        StatusRefusal: 400, it is no duration, too short or too long.
    """
    text = query.get("interval") or ""
    if not text:
        return DEFAULT_SECONDS
    found = _INTERVAL.fullmatch(text)
    seconds = 0.0 if found is None else float(found[1]) / (1000 if found[2] == "ms" else 1)
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise bad_request(f'interval: Invalid value: "{text[:80]}": must be from 100ms to 10s')
    return seconds
