"""Named formats: ``format.dns1123Label().validate(self.name)``.

Deviates: what ``validate`` and ``format.named`` give has hasValue(), value() and optMap() only;
other ways to look into an optional value are refused by the checker.
"""

import re
import uuid
from collections.abc import Callable
from datetime import date
from typing import Any

from multiqueue.lib import object_names as names
from multiqueue.lib.cel.functions.function import Function, Opaque, method, plain
from multiqueue.lib.cel.functions.urls import is_url
from multiqueue.lib.formats import is_base64, is_date_time

Check = Callable[[str], list[str]]


def _prefix(check: Callable[[str], list[str]]) -> Check:
    """For the beginning of a generated name, which may end with a dash."""
    return lambda text: check(text[:-1] + "a" if text.endswith("-") else text)


def _says(is_valid: Callable[[str], bool], why: str) -> Check:
    return lambda text: [] if is_valid(text) else [why]


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text))


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return bool(re.fullmatch(r"[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}", text))


CHECKS: dict[str, Check] = {
    "dns1123Label": lambda text: list(names.label(text)),
    "dns1123Subdomain": lambda text: list(names.subdomain(text)),
    "dns1035Label": lambda text: list(names.label_1035(text)),
    "qualifiedName": lambda text: list(names.qualified_name(text)),
    "dns1123LabelPrefix": _prefix(lambda text: list(names.label(text))),
    "dns1123SubdomainPrefix": _prefix(lambda text: list(names.subdomain(text))),
    "dns1035LabelPrefix": _prefix(lambda text: list(names.label_1035(text))),
    "labelValue": lambda text: list(names.label_value(text)),
    "uri": _says(is_url, "invalid URI"),
    "uuid": _says(_is_uuid, "does not match the UUID format"),
    "byte": _says(is_base64, "invalid base64"),
    "date": _says(_is_date, "invalid date"),
    "datetime": _says(is_date_time, "invalid datetime"),
}


def _known(name: str) -> str:
    if name not in CHECKS:
        raise ValueError(f"no such format: {name}")
    return name


def _value(found: Any) -> Any:
    if found is None:
        raise ValueError("optional.none() dereference")
    return found


def _messages(text: str) -> list[str]:
    return text.split("\n")


FORMAT = Opaque(name="kubernetes.NamedFormat", read=_known)
_MAYBE_FORMAT = Opaque(name="kubernetes.MaybeFormat", read=_known)
_MAYBE_MESSAGES = Opaque(name="kubernetes.MaybeMessages", read=_messages, write="\n".join)


def _validate(name: str, text: str) -> list[str] | None:
    return CHECKS[name](text) or None


def _always(name: str) -> Callable[[], str]:
    return lambda: name


def _optional(name: str, of: Opaque, inner: str | Opaque) -> tuple[Function, Function]:
    return (
        method("hasValue", f"{name}_has_value", (of,), "bool", lambda found: found is not None),
        method("value", f"{name}_value", (of,), inner, _value),
    )


FORMATS = (
    *(plain(f"format.{name}", f"format_{name}", (), FORMAT, _always(name)) for name in CHECKS),
    plain(
        "format.named",
        "format_named",
        ("string",),
        _MAYBE_FORMAT,
        lambda name: name if name in CHECKS else None,
    ),
    method("validate", "format_validate", (FORMAT, "string"), _MAYBE_MESSAGES, _validate),
    *_optional("messages", _MAYBE_MESSAGES, "list<string>"),
    *_optional("format", _MAYBE_FORMAT, FORMAT),
)
