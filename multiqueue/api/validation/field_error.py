"""Field errors in Kubernetes' wording, as values: path, problem and remedy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ErrorType(StrEnum):
    """Kinds of field errors, with the reasons that a Status uses for them."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    FORBIDDEN = "FieldValueForbidden"
    TYPE_INVALID = "FieldValueTypeInvalid"


_PREFIX = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TYPE_INVALID: "Invalid value",
}
_SHOWS_VALUE = {
    ErrorType.INVALID,
    ErrorType.NOT_SUPPORTED,
    ErrorType.DUPLICATE,
    ErrorType.NOT_FOUND,
    ErrorType.TYPE_INVALID,
}
IMMUTABLE = "field is immutable"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in an object."""

    path: str
    type: ErrorType
    value: Any
    detail: str

    @property
    def message(self) -> str:
        """Return Kubernetes' wording without the path: ``Invalid value: -1: must be ...``."""
        text = _PREFIX[self.type]
        if self.type in _SHOWS_VALUE:
            text = f"{text}: {show(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def as_cause(self) -> dict[str, str]:
        """Return an entry of ``status.details.causes``."""
        return {"reason": self.type.value, "message": self.message, "field": self.path}

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def show(value: Any) -> str:
    """Return a value as Kubernetes prints it in errors; long values are shortened."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= 256 else f"{text[:253]}..."


def required(path: str, detail: str = "") -> FieldError:
    """Return the error for a missing or empty field."""
    return FieldError(path, ErrorType.REQUIRED, None, detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """Return the error for a value that breaks a rule."""
    return FieldError(path, ErrorType.INVALID, value, detail)


def immutable(path: str, value: Any) -> FieldError:
    """Return the error for a change of an immutable value."""
    return FieldError(path, ErrorType.INVALID, value, IMMUTABLE)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error for a value that is not in an enumeration."""
    options = ", ".join(json.dumps(option) for option in supported)
    return FieldError(path, ErrorType.NOT_SUPPORTED, value, f"supported values: {options}")


def duplicate(path: str, value: Any) -> FieldError:
    """Return the error for a repeated value that must be unique."""
    return FieldError(path, ErrorType.DUPLICATE, value, "")


def not_found(path: str, value: Any) -> FieldError:
    """Return the error for a reference to something that is not there."""
    return FieldError(path, ErrorType.NOT_FOUND, value, "")


def too_many(path: str, actual: int, maximum: int) -> FieldError:
    """Return the error for a list that is too long."""
    detail = f"{actual}: must have at most {maximum} items"
    return FieldError(path, ErrorType.TOO_MANY, actual, detail)


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error for a field that may not be set, or not together with another."""
    return FieldError(path, ErrorType.FORBIDDEN, None, detail)


def join_errors(errors: Sequence[FieldError]) -> str:
    """Join errors to one text: a single one as it is, several in brackets, without repetitions."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def refused_status(errors: Sequence[FieldError]) -> dict[str, Any]:
    """Return the metav1.Status of a webhook's refusal, with a cause per error.

    Its code is 403, as upstream's webhooks answer; 422 is left to the API server itself.
    """
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": join_errors(errors),
        "details": {"causes": [error.as_cause() for error in errors]},
    }
