"""Field errors in the words of Kubernetes: what ``details.causes`` of an Invalid status carries.

The HTTP layer turns a list of causes into one 422 ``Status`` (see :func:`invalid_message`).
Validation never raises for bad input.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
TYPE_INVALID = "FieldValueTypeInvalid"
DUPLICATE = "FieldValueDuplicate"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One field error; ``message`` has Kubernetes' prefix, e.g. ``Invalid value: 3: ...``."""

    reason: str
    field: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """The shape of ``status.details.causes[]``."""
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> FieldCause:
    """A mandatory field is missing or empty."""
    return FieldCause(REQUIRED, field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> FieldCause:
    """A value that breaks a rule."""
    return FieldCause(INVALID, field, f"Invalid value: {show(value)}: {detail}")


def type_invalid(field: str, value: Any, detail: str) -> FieldCause:
    """A value of the wrong JSON type."""
    return FieldCause(TYPE_INVALID, field, f"Invalid value: {show(value)}: {detail}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldCause:
    """A value outside an enumeration."""
    options = ", ".join(json.dumps(option) for option in supported)
    tail = f": supported values: {options}" if options else ""
    return FieldCause(NOT_SUPPORTED, field, f"Unsupported value: {show(value)}{tail}")


def duplicate(field: str, value: Any) -> FieldCause:
    """A value that must be unique in its list."""
    return FieldCause(DUPLICATE, field, f"Duplicate value: {show(value)}")


def too_long(field: str, maximum: int) -> FieldCause:
    """A text above its length limit."""
    return FieldCause(TOO_LONG, field, f"Too long: may not be more than {maximum} bytes")


def too_many(field: str, actual: int, maximum: int) -> FieldCause:
    """A list above its length limit."""
    return FieldCause(TOO_MANY, field, f"Too many: {actual}: must have at most {maximum} items")


def forbidden(field: str, detail: str) -> FieldCause:
    """A field that may not be set, or not changed, here."""
    return FieldCause(FORBIDDEN, field, f"Forbidden: {detail}")


def show(value: Any) -> str:
    """A value as Kubernetes prints it in a field error: JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def invalid_message(kind: str, group: str, name: str, causes: Sequence[FieldCause]) -> str:
    """The ``message`` of a 422: ``Job.batch "a" is invalid: spec.x: Required value``."""
    qualified = f"{kind}.{group}" if group else kind
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    detail = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return f'{qualified} "{name}" is invalid: {detail}'
