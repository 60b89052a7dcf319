"""Reads the query of a request as Go does."""

from collections.abc import Iterable, Mapping
from typing import cast

from multiqueue.embedded.server.managed.tracking import check_manager
from multiqueue.embedded.server.schema import FieldValidation
from multiqueue.embedded.server.status import bad_request, invalid_options

MAX_INT64, MAX_DIGITS = 2**63 - 1, 20


def first_values(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first value of each query parameter."""
    query: dict[str, str] = {}
    for name, value in pairs:
        query.setdefault(name, value)
    return query


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Whether a boolean query parameter says yes, as Go parses it."""
    value = query.get(name)
    return value is not None and value.lower() not in {"0", "false", "f"}


def parse_int64(text: str) -> int:
    """A number as Go reads it.

    Raises:
        StatusError: 400.
    """
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdecimal()):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    number = int(text) if len(text) <= MAX_DIGITS else MAX_INT64 + 1
    if not -MAX_INT64 - 1 <= number <= MAX_INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def parse_dry_run(query: Mapping[str, str]) -> bool:
    """Whether nothing is to be stored.

    Raises:
        StatusError: 400.
    """
    value = query.get("dryRun", "")
    if value not in {"", "All"}:
        raise bad_request(
            f'Invalid value: "{value}": dryRun: Unsupported value: "{value}": supported values: '
            '"All"'
        )
    return value == "All"


def parse_field_validation(query: Mapping[str, str]) -> FieldValidation:
    """What to do about unknown and repeated fields.

    Raises:
        StatusError: 400.
    """
    value = query.get("fieldValidation") or "Warn"
    if value not in {"Strict", "Warn", "Ignore"}:
        supported = '"Ignore", "Strict", "Warn"'
        raise bad_request(
            f'fieldValidation: Unsupported value: "{value}": supported values: {supported}'
        )
    return cast("FieldValidation", value)


def parse_field_manager(query: Mapping[str, str], options: str) -> str:
    """The query parameter ``fieldManager``; ``options`` names the kind that it is a field of.

    Raises:
        StatusError: 422.
    """
    manager = query.get("fieldManager", "")
    if manager and options and (causes := check_manager(manager)):
        raise invalid_options(options, causes)
    return manager
