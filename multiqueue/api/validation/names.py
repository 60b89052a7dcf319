"""Rules of names, labels, annotations and selectors; no messages means valid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from multiqueue.api.validation.access import items, mapping, strings
from multiqueue.api.validation.field_error import FieldError, forbidden, invalid, required

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_QUALIFIED})?"

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE}')"
)
MAX_ANNOTATIONS_BYTES = 256 * 1024

Messages = tuple[str, ...]


@lru_cache(maxsize=4096)
def check_subdomain(value: str) -> Messages:
    """Check a DNS-1123 subdomain of at most 253 characters: the name of most objects."""
    return _check(value, _SUBDOMAIN, 253, _SUBDOMAIN_TEXT)


@lru_cache(maxsize=4096)
def check_label_value(value: str) -> Messages:
    """Check the value of a label."""
    return _check(value, _LABEL_VALUE, 63, _LABEL_VALUE_TEXT)


@lru_cache(maxsize=4096)
def check_qualified_name(value: str) -> Messages:
    """Check the key of a label, or the name of a resource: ``name`` or ``prefix/name``."""
    prefix, slash, name = value.rpartition("/")
    messages: list[str] = []
    if "/" in prefix:
        return ("a qualified name must consist of an optional DNS prefix, '/' and a name",)
    if slash and not prefix:
        messages.append("prefix part must be non-empty")
    elif slash:
        messages.extend(f"prefix part {text}" for text in check_subdomain(prefix))
    if not name:
        return (*messages, "name part must be non-empty")
    return (*messages, *_check(name, _QUALIFIED, 63, _QUALIFIED_TEXT))


def check_domain_prefixed_path(value: str) -> Messages:
    """Check the name of a controller or a gate: ``example.com/path``."""
    domain, slash, path = value.partition("/")
    if not slash or not domain or not path:
        return ('must be a domain-prefixed path (such as "acme.io/foo")',)
    messages = list(check_subdomain(domain))
    if not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", path):
        messages.append("the path must consist of characters that are allowed in a URL")
    return tuple(messages)


def _check(value: str, pattern: str, maximum: int, text: str) -> Messages:
    messages = []
    if len(value) > maximum:
        messages.append(f"must be no more than {maximum} characters")
    if not re.fullmatch(pattern, value):
        messages.append(text)
    return tuple(messages)


def validate_labels(labels: Any, path: str) -> Iterator[FieldError]:
    """Check keys and values of labels or node labels."""
    for key, value in mapping(labels).items():
        for text in check_qualified_name(key):
            yield invalid(path, key, text)
        for text in check_label_value(value) if isinstance(value, str) else ("must be a string",):
            yield invalid(path, value, text)


def validate_annotations(annotations: Any, path: str) -> Iterator[FieldError]:
    """Check keys and total size of annotations."""
    size = 0
    for key, value in mapping(annotations).items():
        for text in check_qualified_name(key.lower()):
            yield invalid(path, key, text)
        size += len(key) + len(str(value))
    if size > MAX_ANNOTATIONS_BYTES:
        yield invalid(path, "", f"must have at most {MAX_ANNOTATIONS_BYTES} bytes")


def validate_label_selector(selector: Any, path: str) -> Iterator[FieldError]:
    """Check a metav1.LabelSelector."""
    if not isinstance(selector, Mapping):
        return
    yield from validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for i, expression in items(selector.get("matchExpressions")):
        at = f"{path}.matchExpressions[{i}]"
        operator, values = expression.get("operator"), list(strings(expression.get("values")))
        if operator in {"In", "NotIn"}:
            if not values:
                yield required(
                    f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                )
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                yield forbidden(
                    f"{at}.values",
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )
        else:
            yield invalid(f"{at}.operator", operator, "not a valid selector operator")
        for text in check_qualified_name(str(expression.get("key") or "")):
            yield invalid(f"{at}.key", expression.get("key"), text)
        for j, value in enumerate(values):
            for text in check_label_value(value):
                yield invalid(f"{at}.values[{j}]", value, text)
