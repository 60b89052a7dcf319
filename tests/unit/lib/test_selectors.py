"""Label selectors, as text and as objects."""

import pytest

from multiqueue.lib.selectors import (
    EVERYTHING,
    SelectorError,
    label_selector_from,
    parse_label_selector,
)

LABELS = {"tier": "web", "size": "3", "example.com/team": "a", "empty": ""}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", True),
        ("tier=web", True),
        (" tier == web ", True),
        ("tier=db", False),
        ("tier!=db", True),
        ("absent!=x", True),
        ("tier in (db, web)", True),
        ("tier in (db)", False),
        ("tier notin (db)", True),
        ("absent notin (db)", True),
        ("tier", True),
        ("absent", False),
        ("!absent", True),
        ("!tier", False),
        ("size>2", True),
        ("size<3", False),
        ("tier>2", False),
        ("empty=", True),
        ("absent=", False),
        ("empty in (,x)", True),
        ("example.com/team=a,tier=web", True),
        ("example.com/team=a,tier=db", False),
    ],
)
def test_texts(text: str, want: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is want


@pytest.mark.parametrize(
    "text",
    [
        "a b",
        "a=b=c",
        "=x",
        "a in x",
        "a in (x",
        "a in x)",
        ",",
        "a,",
        "a>x",
        "-a",
        "a=b c",
        "a=_",
        "!",
    ],
)
def test_malformed_texts(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)


def test_an_empty_text_is_everything() -> None:
    assert parse_label_selector(" ") is EVERYTHING


def expression(operator: str, *values: str, key: str = "tier") -> dict:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"tier": "web"}}, True),
        ({"matchLabels": {"tier": "db"}}, False),
        (expression("In", "web", "db"), True),
        (expression("NotIn", "web"), False),
        (expression("Exists"), True),
        (expression("DoesNotExist"), False),
        ({"matchLabels": {"tier": "web"}, **expression("Exists", key="absent")}, False),
    ],
)
def test_objects(selector: dict | None, want: bool) -> None:
    assert label_selector_from(selector).matches(LABELS) is want


@pytest.mark.parametrize(
    "selector", [expression("In"), expression("Near", "x"), {"matchLabels": {"-": "x"}}]
)
def test_malformed_objects(selector: dict) -> None:
    with pytest.raises(SelectorError):
        label_selector_from(selector)
