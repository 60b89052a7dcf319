"""Which LocalQueue a running job goes to: by label, by namespace, or by the rules of a file. Pure.

Parity: cmd/importer/mapping @v0.19; the file has the same fields.
Deviates: if the rules give a job two queues, that is an error instead of the first rule's queue.
Rules may also match namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from multiqueue.api.validation.access import mapping as read_mapping
from multiqueue.api.validation.access import text
from multiqueue.cli.errors import UsageProblem

_RULE_FIELDS = frozenset({"match", "toLocalQueue", "skip"})
_MATCH_FIELDS = frozenset({"labels", "priorityClassName", "namespace"})


class NoQueue(Enum):
    """Why the rules give a job no queue."""

    SKIPPED = "a rule skips it"
    UNMAPPED = "no rule matches it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRule:
    """Sends jobs to a LocalQueue, or leaves them alone.

    Attributes:
        source: Where the rule was given, for messages.
        labels: Labels that the job must have.
        priority_class: The PriorityClass that its pods must name; empty for any.
        namespace: The namespace that it must be in; empty for any.
        queue: The LocalQueue; empty if the rule skips jobs.
    """

    source: str
    labels: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    namespace: str = ""
    queue: str = ""

    def matches(self, namespace: str, labels: Mapping[str, str], priority_class: str) -> bool:
        """Whether the rule is about a job with these values."""
        return (
            self.namespace in {"", namespace}
            and self.priority_class in {"", priority_class}
            and all(labels.get(key) == value for key, value in self.labels.items())
        )


@dataclass(frozen=True, slots=True)
class TwoQueues:
    """Two rules that send one job to different queues."""

    first: ImportRule
    second: ImportRule


def find_queue(
    rules: Sequence[ImportRule], namespace: str, labels: Mapping[str, str], priority_class: str
) -> str | NoQueue | TwoQueues:
    """Return the queue of a job, or why it has none.

    If the first rule that matches skips the job, it is skipped. All other rules that match must
    name the same queue.
    """
    found = [rule for rule in rules if rule.matches(namespace, labels, priority_class)]
    if not found:
        return NoQueue.UNMAPPED
    first = found[0]
    if not first.queue:
        return NoQueue.SKIPPED
    other = next((rule for rule in found if rule.queue not in {"", first.queue}), None)
    return first.queue if other is None else TwoQueues(first, other)


# ---------------------------------------------------------------- options


def parse_pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """Return the pairs of an option such as ``a=q1,b=q2``, which may be repeated.

    Raises:
        UsageProblem: a part is no pair, or one key has two values.
    """
    pairs: dict[str, str] = {}
    for part in (part.strip() for value in values for part in value.split(",")):
        key, sign, value = part.partition("=")
        if not (key and sign and value):
            raise UsageProblem(f'{option}: "{part}" is not of the form KEY=VALUE')
        if pairs.setdefault(key, value) != value:
            raise UsageProblem(
                f'{option}: "{key}" is mapped to "{pairs[key]}" and to "{value}"; keep one of them'
            )
    return pairs


def build_label_rules(label: str, queues: Mapping[str, str]) -> list[ImportRule]:
    """Return the rules of ``--queue-label`` and ``--queue-mapping``."""
    return [
        ImportRule(source=f"--queue-mapping {value}={queue}", labels={label: value}, queue=queue)
        for value, queue in queues.items()
    ]


def build_namespace_rules(queues: Mapping[str, str]) -> list[ImportRule]:
    """Return the rules of ``--namespace-mapping``."""
    return [
        ImportRule(source=f"--namespace-mapping {name}={queue}", namespace=name, queue=queue)
        for name, queue in queues.items()
    ]


# ---------------------------------------------------------------- the file


def read_rules(document: object, name: str) -> list[ImportRule]:
    """Return the rules of a mapping file.

    Raises:
        UsageProblem: the document is no list of rules.
    """
    if not isinstance(document, list) or not document:
        raise UsageProblem(
            f"{name}: expected a list of rules, each with match and toLocalQueue, or skip: true"
        )
    return [_read_rule(item, f"{name}, rule {n}") for n, item in enumerate(document, start=1)]


def _read_rule(item: object, where: str) -> ImportRule:
    if not isinstance(item, dict):
        raise UsageProblem(f"{where} is no mapping; expected match and toLocalQueue, or skip: true")
    _refuse_unknown(item, _RULE_FIELDS, where)
    match = read_mapping(item, "match")
    if item.get("match") is not None and not isinstance(item["match"], dict):
        raise UsageProblem(f"{where}: match is no mapping")
    _refuse_unknown(match, _MATCH_FIELDS, f"{where}, match")
    queue, skip = text(item.get("toLocalQueue")), item.get("skip", False)
    if not isinstance(skip, bool):
        raise UsageProblem(f'{where}: skip is "{skip}", expected true or false')
    if bool(queue) == skip:
        raise UsageProblem(f"{where}: set either toLocalQueue or skip: true")
    return ImportRule(
        source=where,
        labels=_read_labels(match.get("labels"), where),
        priority_class=_read_text(match, "priorityClassName", where),
        namespace=_read_text(match, "namespace", where),
        queue=queue,
    )


def _refuse_unknown(item: Mapping[Any, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(str(key) for key in item if key not in known)
    if unknown:
        raise UsageProblem(
            f"{where}: unknown field {', '.join(unknown)}; known are {', '.join(sorted(known))}"
        )


def _read_text(match: Mapping[str, Any], field: str, where: str) -> str:
    value = match.get(field)
    if value is not None and not isinstance(value, str):
        raise UsageProblem(f'{where}: match.{field} is "{value}", expected a text')
    return value or ""


def _read_labels(value: object, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(
        isinstance(part, str) for pair in value.items() for part in pair
    ):
        raise UsageProblem(
            f"{where}: match.labels must map texts to texts; put numbers and true/false in quotes"
        )
    return dict(value)
