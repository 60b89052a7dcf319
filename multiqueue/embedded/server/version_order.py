"""The order in which Kubernetes prefers API versions."""

import re


def version_priority(name: str) -> tuple[int, int, int, str]:
    """Kubernetes' sort key: GA, beta, alpha, each with higher numbers first; other names last."""
    match = re.fullmatch(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", name)
    if match is None:
        return (3, 0, 0, name)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), name)
