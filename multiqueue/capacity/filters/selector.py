"""The user selects clusters by their labels."""

from __future__ import annotations

from functools import lru_cache

from multiqueue.api.names import CLUSTER_SELECTOR
from multiqueue.capacity.filters.candidate import Candidate
from multiqueue.lib.selectors import LabelSelector, SelectorError, parse_label_selector


def selector(candidate: Candidate) -> str:
    """Object to clusters whose labels do not match; to all if the selector is malformed."""
    text = candidate.wanted(CLUSTER_SELECTOR)
    if not text:
        return ""
    try:
        wanted = _parse(text)
    except SelectorError as error:
        return f'cannot be selected: {CLUSTER_SELECTOR} "{text}" is malformed: {error}'
    if wanted.matches(candidate.cluster.metadata.labels):
        return ""
    return f'is not selected by "{text}" ({CLUSTER_SELECTOR})'


@lru_cache(maxsize=256)
def _parse(text: str) -> LabelSelector:
    return parse_label_selector(text)
