"""Which paths of the API server the page may read: a fixed list, and nothing else.

No Secrets, no exec, no proxy, no writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_REMOTE = r"/apis/remote\.multiqueue\.dev/v1alpha1"
READABLE = (
    rf"/apis/fleet\.multiqueue\.dev/v1alpha1(/namespaces/{_NAME})?/{_NAME}(/{_NAME})?",
    rf"{_REMOTE}/namespaces/{_NAME}/workloads/{_NAME}/(pods|events|log|dispatch)",
)
"""Patterns of whole paths that may be read with GET."""
_READABLE = re.compile("|".join(f"(?:{pattern})" for pattern in READABLE))


def is_readable(path: str) -> bool:
    """Whether a raw path, still percent-encoded, may be read."""
    return _READABLE.fullmatch(path) is not None


_QUESTION = re.compile(rf"/apis/fleet\.multiqueue\.dev/v1alpha1(/namespaces/{_NAME})?/whatifs")
"""The only path that may be asked with POST: a what-if writes nothing."""


def is_question(path: str) -> bool:
    """Whether a raw path answers the body of a POST, and keeps nothing of it."""
    return _QUESTION.fullmatch(path) is not None


def is_stream(path: str, query: Mapping[str, str]) -> bool:
    """Whether the answer has no end: the feed, or a log that is followed."""
    return path.endswith("/feeds") or query.get("follow") == "true"
