"""Small pieces that the columns of built-in kinds are made of."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from multiqueue.embedded.server import table
from multiqueue.embedded.server.ages import age
from multiqueue.embedded.server.kinds import Cell, PrinterColumn

Json = Mapping[str, Any]

NONE = "<none>"


def column(name: str, cell: Cell, *, kind: str = "string", wide: bool = False) -> PrinterColumn:
    """A column; wide ones show with ``-o wide`` only."""
    return PrinterColumn(name=name, type=kind, priority=1 if wide else 0, cell=cell)


def at(*path: str, default: Any = "") -> Cell:
    """The value at a path of keys."""

    def cell(obj: Json, _now: datetime) -> Any:
        value: Any = obj
        for name in path:
            value = value.get(name)
            if value is None:
                return default
        return value

    return cell


def age_at(*path: str) -> Cell:
    """The time since the timestamp at a path."""
    read = at(*path)
    return lambda obj, now: age(read(obj, now), now)


def count_at(*path: str) -> Cell:
    """How many items a list or map has."""
    read = at(*path, default=())
    return lambda obj, now: len(read(obj, now))


AGE = table.AGE
CREATED_AT = column("Created At", at("metadata", "creationTimestamp"))


def labels_text(labels: Mapping[str, str]) -> str:
    """``a=b,c=d``, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def selector_text(selector: Json) -> str:
    """A label selector in the words of kubectl."""
    parts = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for requirement in selector.get("matchExpressions", ()):
        key, values = requirement["key"], ",".join(sorted(requirement.get("values", ())))
        words = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(words.get(requirement["operator"], key))
    return ",".join(parts) or NONE


def containers_of(*path: str) -> Cell:
    """Names of the containers of the Pod spec at a path."""
    read = at(*path, "containers", default=())
    return lambda obj, now: ",".join(container.get("name", "") for container in read(obj, now))


def images_of(*path: str) -> Cell:
    """Their images."""
    read = at(*path, "containers", default=())
    return lambda obj, now: ",".join(container.get("image", "") for container in read(obj, now))


def template_columns(*path: str) -> tuple[PrinterColumn, ...]:
    """Containers and images of a Pod template, wide."""
    return (
        column("Containers", containers_of(*path, "spec"), wide=True),
        column("Images", images_of(*path, "spec"), wide=True),
    )


SELECTOR = column(
    "Selector", lambda obj, _now: selector_text(obj["spec"].get("selector", {})), wide=True
)


def condition(obj: Json, name: str) -> Json:
    """The condition of a type in the status, or nothing."""
    conditions: Sequence[Json] = obj.get("status", {}).get("conditions", ())
    return next((found for found in conditions if found.get("type") == name), {})


def is_true(obj: Json, name: str) -> bool:
    """Whether a condition is True."""
    return condition(obj, name).get("status") == "True"
