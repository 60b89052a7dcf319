"""Rules of the annotation with other numbers of pods for some hardware. Ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from multiqueue.api import names
from multiqueue.api.alternatives import parse_alternatives, resolve_alternatives
from multiqueue.api.validation.access import Object, mapping
from multiqueue.api.validation.field_error import FieldError, forbidden, immutable, invalid
from multiqueue.api.validation.pod_sets import is_elastic

PATH = f"metadata.annotations[{names.ALTERNATIVES}]"


def validate_alternatives(obj: Object) -> Iterator[FieldError]:
    """Check that the annotation can be read and agrees with other settings of the job's size."""
    text = _text(obj)
    if not text:
        return
    if is_elastic(obj):
        yield forbidden(PATH, "elastic jobs have no alternatives")
    if names.JOB_MIN_PARALLELISM in mapping(obj, "metadata", "annotations"):
        detail = f"cannot be used together with {names.JOB_MIN_PARALLELISM}"
        yield forbidden(PATH, detail)
    try:
        parse_alternatives(text)
    except ValueError as error:
        yield invalid(PATH, text, str(error))


def validate_alternatives_fit(obj: Object, counts: Mapping[str, int]) -> Iterator[FieldError]:
    """Check that the annotation matches these pods and asks for no more of them.

    Only for objects that users write: a started job has the number of one of its alternatives.
    """
    text = _text(obj)
    try:
        if not text or not parse_alternatives(text):
            return
    except ValueError:
        return  # `validate_alternatives` reports it
    try:
        resolve_alternatives(text, counts)
    except ValueError as error:
        yield invalid(PATH, text, str(error))


def validate_alternatives_update(
    new: Object, old: Object, *, is_resized: bool
) -> Iterator[FieldError]:
    """Check a change of the annotation; the job's Workload keeps the first value.

    Args:
        new: The new state of the job.
        old: The present state of the job.
        is_resized: Whether the number of pods changes while they may run.
    """
    if _text(new) != _text(old):
        yield immutable(PATH, _text(new))
    if is_resized and _text(old):
        detail = "cannot change while a job with alternatives is not suspended"
        yield forbidden("spec.parallelism", detail)


def find_fewest(obj: Object, count: int) -> int:
    """Return the lowest number of pods that the annotation accepts instead of ``count``."""
    try:
        found = parse_alternatives(_text(obj)) if _text(obj) else {}
    except ValueError:
        return count
    return min([count, *(pods for each in found.values() for pods in each.values())])


def _text(obj: Object) -> str:
    value = mapping(obj, "metadata", "annotations").get(names.ALTERNATIVES)
    return value.strip() if isinstance(value, str) else ""
