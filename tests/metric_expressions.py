"""Takes PromQL expressions apart: which metrics they look at, under which labels.

It knows as much of the language as rules and boards use: selectors, ``by`` and ``on``. Whether an
expression is PromQL at all is promtool's to say (`make rules`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

OURS = re.compile(r"\b((?:multiqueue|multikueue|kueue)[_:][\w:]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
FILLED_IN_BY_PROMETHEUS = {"le"}


def find_unknown(expression: str, labels: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield what an expression asks for and does not exist.

    Args:
        expression: The expression.
        labels: The labels of each series that there is.
    """
    selectors = list(OURS.finditer(expression))
    if not selectors:
        yield f"no metric of ours in {expression}"
    for selector in selectors:
        name, matchers = selector.groups()
        if name not in labels:
            yield f"metric {name}"
            continue
        for label in MATCHER.findall(matchers or ""):
            if label not in labels[name]:
                yield f"label {label} of {name}"
    for grouping in GROUPED.finditer(expression):
        wanted = {label.strip() for label in grouping[1].split(",")} - {""}
        inside = _argument(expression, grouping.end())
        # What is compared `on` labels is on both sides; look at the whole expression for those.
        for name in {match[1] for match in OURS.finditer(inside or expression)} & labels.keys():
            for label in sorted(wanted - labels[name]):
                yield f"label {label} of {name}"


def _argument(expression: str, start: int) -> str:
    """Return the parenthesis that begins here; empty if there is none."""
    if expression[start:].lstrip()[:1] != "(":
        return ""
    depth = 0
    for place in range(expression.index("(", start), len(expression)):
        depth += {"(": 1, ")": -1}.get(expression[place], 0)
        if not depth:
            return expression[start : place + 1]
    return ""
