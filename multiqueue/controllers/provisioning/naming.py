"""Names of requests and PodTemplates, and the attempt that a name stands for. Parity: E-155."""

from __future__ import annotations

import hashlib
import re

MAX_LENGTH = 247
"""Longest name that is left as it is; a dash and the digest then still make a valid name."""
DIGEST_LENGTH = 5


def request_name(workload: str, check: str, attempt: int) -> str:
    """Return the name of the request of an attempt, which counts from 1."""
    return _limit(f"{_stem(workload, check)}{attempt}")


def template_name(request: str, pod_set: str) -> str:
    """Return the name of the PodTemplate of a pod set."""
    return _limit(f"ppt-{request}-{pod_set}")


def find_attempt(name: str, workload: str, check: str, *, highest: int) -> int | None:
    """Return the attempt that a request's name stands for; None if it is not one of the check's.

    Deviates: for a shortened name, the first ``highest`` attempts are tried. The reference does
    not recognize such a request again, and deletes and creates it for ever.
    """
    stem = _stem(workload, check)
    digits = name.removeprefix(stem)
    if digits != name and re.fullmatch(r"[0-9]+", digits):
        return int(digits)
    if len(name) <= MAX_LENGTH:
        return None
    attempts = range(1, highest + 1)
    return next((n for n in attempts if request_name(workload, check, n) == name), None)


def _stem(workload: str, check: str) -> str:
    return f"{workload}-{check}-"


def _limit(name: str) -> str:
    if len(name) <= MAX_LENGTH:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:MAX_LENGTH]}-{digest[:DIGEST_LENGTH]}"
