"""The small language of changes to try: ``quota cq/research nvidia.com/gpu=16``. Pure.

Each change edits the objects of a snapshot as an operator would edit them on the cluster.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import NamedTuple

from multiqueue.whatif import queue_changes, worker_changes
from multiqueue.whatif.change_request import (
    ChangeError,
    ChangeRequest,
    FormError,
    Submit,
    find_workload,
    read_pair,
)
from multiqueue.whatif.snapshot import Snapshot


class ChangeRule(NamedTuple):
    """One verb of the language: its form, and the function that makes the change.

    The function returns what it did, in a sentence.
    """

    form: str
    apply: Callable[[ChangeRequest], str]


def apply_change(snapshot: Snapshot, text: str, submit: Submit) -> str:
    """Make one change in a snapshot; return what it did, in a sentence.

    Args:
        snapshot: The snapshot to change.
        text: The change.
        submit: Submits the jobs of a file that the change names.

    Raises:
        ChangeError: it cannot be read, or names what the snapshot does not have.
    """
    try:
        verb, *words = shlex.split(text) or [""]
    except ValueError as error:
        raise ChangeError(f'"{text}" cannot be read: {error}; {list_forms()}') from error
    rule = RULES.get(verb)
    if rule is None:
        raise ChangeError(f'"{text}": there is no change "{verb}"; {list_forms()}')
    try:
        return rule.apply(ChangeRequest(snapshot=snapshot, verb=verb, words=words, submit=submit))
    except FormError as error:
        detail = f"{error}; " if str(error) else ""
        raise ChangeError(f'"{text}": {detail}write "{rule.form}"') from error
    except ChangeError as error:
        raise ChangeError(f'"{text}": {error}') from error


def list_forms() -> str:
    """Return all forms in one line."""
    return "write one of: " + "; ".join(rule.form for rule in RULES.values())


def _set_priority(ask: ChangeRequest) -> str:
    target, value = read_pair(ask.words)
    obj = find_workload(ask.snapshot, target)
    try:
        obj["spec"]["priority"] = int(value)
    except ValueError:
        raise ChangeError(f'"{value}" is no whole number') from None
    return f"Workload {target}: priority {value}"


def _cancel(ask: ChangeRequest) -> str:
    if len(ask.words) != 1:
        raise FormError
    obj = find_workload(ask.snapshot, ask.words[0])
    metadata = obj["metadata"]
    ask.snapshot.remove("Workload", f"{metadata['namespace']}/{metadata['name']}")
    return f"{ask.words[0]} is gone, and its quota is free"


def _submit(ask: ChangeRequest) -> str:
    if len(ask.words) != 1:
        raise FormError
    keys = ask.submit(ask.snapshot, ask.words[0])
    return f"submitted: {', '.join(keys)}"


_QUOTA = "cq/NAME|cohort/NAME RESOURCE[@FLAVOR]=N ..."
_TABLE: tuple[ChangeRule, ...] = (
    ChangeRule(f"quota {_QUOTA}", queue_changes.set_quota),
    ChangeRule(f"borrowing-limit {_QUOTA}", queue_changes.set_limit),
    ChangeRule(f"lending-limit {_QUOTA}", queue_changes.set_limit),
    ChangeRule("weight cq/NAME|cohort/NAME=N", queue_changes.set_weight),
    ChangeRule("strategy cq/NAME=StrictFIFO|BestEffortFIFO", queue_changes.set_field),
    ChangeRule("cohort cq/NAME=COHORT|-", queue_changes.set_field),
    ChangeRule("hold cq/NAME|lq/NAMESPACE/NAME", queue_changes.hold),
    ChangeRule("resume cq/NAME|lq/NAMESPACE/NAME", queue_changes.hold),
    ChangeRule("priority NAMESPACE/JOB=N", _set_priority),
    ChangeRule("submit FILE", _submit),
    ChangeRule("cancel NAMESPACE/JOB", _cancel),
    ChangeRule("finish NAMESPACE/JOB", _cancel),
    ChangeRule("cordon WORKER", worker_changes.cordon),
    ChangeRule("drain WORKER", worker_changes.drain),
    ChangeRule("remove WORKER", worker_changes.remove),
    ChangeRule("add WORKER FLAVOR=N", worker_changes.add),
)
RULES = {rule.form.split()[0]: rule for rule in _TABLE}
"""By verb."""
