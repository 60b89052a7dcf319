"""What people declare in annotations."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multiqueue.api.declarations import (
    find_malformed,
    parse_data,
    parse_hook,
    parse_prices,
    parse_runtime,
    parse_speeds,
    read,
)
from multiqueue.api.names import CHECKPOINT_HOOK, DATA, NOTIFY, PRICES, RUNTIME, SPEEDS


def test_values_are_read_in_thousandths() -> None:
    assert parse_runtime("1h30m") == timedelta(minutes=90)
    assert parse_speeds("a100=1, h100=2.2") == {"a100": 1000, "h100": 2200}
    assert parse_prices("a100=1.80,spot=0") == {"a100": 1800, "spot": 0}
    assert parse_data(" imagenet, ,laion-5b") == {"imagenet", "laion-5b"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (RUNTIME, "soon", '"soon" is not a duration'),
        (RUNTIME, "0s", "not longer than nothing"),
        (SPEEDS, "a100", '"a100" is not NAME=NUMBER'),
        (SPEEDS, "a100=fast", '"fast" is not a number'),
        (SPEEDS, "a100=0", 'the speed of "a100" must be positive'),
        (SPEEDS, "a100=1,", '"" is not NAME=NUMBER'),
        (PRICES, "a100=-1", "not between 0 and"),
        (PRICES, "a100=NaN", "not between 0 and"),
        (CHECKPOINT_HOOK, "trainer/save", '"trainer/save" is not SERVICE:PORT/PATH, such as'),
        (CHECKPOINT_HOOK, "http://trainer:80/", "is not SERVICE:PORT/PATH"),
        (CHECKPOINT_HOOK, "trainer.other:80/", "is not SERVICE:PORT/PATH"),
        (CHECKPOINT_HOOK, "trainer:80/../../../secrets", "is not SERVICE:PORT/PATH"),
        (CHECKPOINT_HOOK, "trainer:80/.", "is not SERVICE:PORT/PATH"),
        (CHECKPOINT_HOOK, "trainer:80/%2e%2e/", "is not SERVICE:PORT/PATH"),
        (CHECKPOINT_HOOK, "trainer:80/save?now", "is not SERVICE:PORT/PATH"),
        (CHECKPOINT_HOOK, "trainer:80/" + "x" * 300, "is not SERVICE:PORT/PATH"),
        (NOTIFY, "finished,done", '"done" is unknown; choose from admitted'),
    ],
)
def test_what_cannot_be_read_is_named_and_ignored(name: str, text: str, words: str) -> None:
    (told,) = find_malformed({name: text})
    assert f"metadata.annotations[{name}]" in told
    assert words in told
    assert read({name: text}, name, parse_speeds if name == SPEEDS else parse_runtime) is None


def test_nothing_and_everything_right_are_no_news() -> None:
    right = {RUNTIME: "90m", SPEEDS: "h100=2", PRICES: "a100=1", DATA: "x"}
    assert find_malformed({}) == find_malformed(right) == find_malformed({RUNTIME: " "}) == []


def test_a_hook_has_a_service_a_port_and_a_path() -> None:
    assert parse_hook(" trainer:8080/save ") == ("trainer:8080", "/save")
    assert parse_hook("t-1:http/a/b_c.d/~e/") == ("t-1:http", "/a/b_c.d/~e/")
    assert parse_hook("trainer:80") == ("trainer:80", "/")
