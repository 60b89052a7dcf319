"""Rules for names, labels and keys, each with Kubernetes' message. An empty tuple means valid."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_QUALIFIED})?"
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"

_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_QUALIFIED}')"
)

MAX_SUBDOMAIN = 253
MAX_LABEL = 63

Messages = tuple[str, ...]


def max_length(maximum: int) -> str:
    """The message for a text above its limit."""
    return f"must be no more than {maximum} bytes"


def _match(value: str, pattern: str, maximum: int, text: str) -> Messages:
    messages = []
    if len(value.encode()) > maximum:
        messages.append(max_length(maximum))
    if not re.fullmatch(pattern, value):
        messages.append(text)
    return tuple(messages)


@lru_cache(maxsize=4096)
def subdomain(value: str) -> Messages:
    """RFC 1123 subdomain: names of most objects."""
    text = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', "
        "and must start and end with an alphanumeric character "
        f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
    )
    return _match(value, _SUBDOMAIN, MAX_SUBDOMAIN, text)


@lru_cache(maxsize=4096)
def label(value: str) -> Messages:
    """RFC 1123 label: namespaces, containers."""
    text = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character "
        f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
    )
    return _match(value, _LABEL, MAX_LABEL, text)


@lru_cache(maxsize=1024)
def label_1035(value: str) -> Messages:
    """RFC 1035 label: services."""
    text = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character "
        f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL_1035}')"
    )
    return _match(value, _LABEL_1035, MAX_LABEL, text)


def segment(value: str) -> Messages:
    """Anything that fits into one path segment: RBAC objects."""
    if value in {".", ".."}:
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{character}'" for character in "/%" if character in value)


@lru_cache(maxsize=8192)
def qualified_name(value: str) -> Messages:
    """Keys of labels, annotations, resources; ``example.com/name`` or ``name``."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        text = f"a qualified name {_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/'"
        return (f"{text} (e.g. 'example.com/MyName')",)
    messages: list[str] = []
    if slash and not prefix:
        messages.append("prefix part must be non-empty")
    elif slash:
        messages += [f"prefix part {message}" for message in subdomain(prefix)]
    if not name:
        messages.append("name part must be non-empty")
    elif len(name) > MAX_LABEL:
        messages.append(f"name part {max_length(MAX_LABEL)}")
    if not re.fullmatch(_QUALIFIED, name):
        messages.append(f"name part {_QUALIFIED_TEXT}")
    return tuple(messages)


@lru_cache(maxsize=8192)
def label_value(value: str) -> Messages:
    """Values of labels."""
    text = (
        "a valid label must be an empty string or consist of alphanumeric characters, "
        "'-', '_' or '.', and must start and end with an alphanumeric character "
        "(e.g. 'MyValue',  or 'my_value',  or '12345', "
        "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )
    return _match(value, _LABEL_VALUE, MAX_LABEL, text)


def config_key(value: str) -> Messages:
    """Keys of ConfigMaps and Secrets."""
    text = (
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
        "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
        f"regex used for validation is '{_CONFIG_KEY}')"
    )
    messages = _match(value, _CONFIG_KEY, MAX_SUBDOMAIN, text)
    if value in {".", ".."}:
        messages += (f"must not be '{value}'",)
    elif value.startswith(".."):
        messages += ("must not start with '..'",)
    return messages


def port_number(value: int) -> Messages:
    """Port numbers."""
    return () if 1 <= value <= 65535 else ("must be between 1 and 65535, inclusive",)


NAME_RULES: Mapping[str, Callable[[str], Messages]] = {
    "subdomain": subdomain,
    "label": label,
    "label1035": label_1035,
    "segment": segment,
}
"""By ``Kind.name_rule``."""
