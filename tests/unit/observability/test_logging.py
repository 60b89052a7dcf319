from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import structlog

from multiqueue.observability.logging import (
    REDACTED,
    THRESHOLD,
    LogFormat,
    configure_logging,
    redact,
)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    before = structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)


class Stream(io.TextIOWrapper):
    """What standard error looks like, a terminal or not."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), write_through=True)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    @property
    def text(self) -> str:
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode()

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.text.splitlines()]


def test_the_level_changes_for_loggers_that_are_in_use() -> None:
    stream = Stream()
    configure_logging(stream=stream, level="warning")
    log = structlog.get_logger(component="scheduler")
    for level in ("warning", "debug", "error"):
        THRESHOLD.set(level)
        log.debug("small", at=level)
        log.info("medium", at=level)
        log.error("large", at=level)
    THRESHOLD.set("info")
    told = [(entry["event"], entry["at"]) for entry in stream.entries]
    large = [("large", "warning"), ("large", "debug"), ("large", "error")]
    assert told == [large[0], ("small", "debug"), ("medium", "debug"), *large[1:]]


def test_an_entry_is_one_line_of_json() -> None:
    stream = Stream()
    configure_logging(stream=stream)
    structlog.get_logger(component="scheduler").info("admitted", workload="a/b", cycle=3)
    (entry,) = stream.entries
    assert entry.pop("ts").endswith("Z")
    assert entry == {
        "component": "scheduler",
        "event": "admitted",
        "level": "info",
        "workload": "a/b",
        "cycle": 3,
    }


def test_people_at_a_terminal_get_text() -> None:
    stream = Stream(terminal=True)
    configure_logging(stream=stream)
    structlog.get_logger().warning("hello", workload="a/b")
    assert "hello" in stream.text
    assert "\x1b[" in stream.text


def test_json_may_be_asked_for_at_a_terminal() -> None:
    stream = Stream(terminal=True)
    configure_logging(stream=stream, format=LogFormat.JSON)
    structlog.get_logger().warning("hello")
    assert stream.entries[0]["event"] == "hello"


def test_what_is_below_the_level_is_not_written() -> None:
    stream = Stream()
    configure_logging(stream=stream, level="warning")
    log = structlog.get_logger()
    log.info("quiet")
    log.error("loud")
    assert [e["event"] for e in stream.entries] == ["loud"]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(KeyError):
        configure_logging(level="chatty")


def test_tracebacks_are_part_of_the_line() -> None:
    stream = Stream()
    configure_logging(stream=stream)
    structlog.get_logger().error("failed", exc_info=ValueError("boom, Bearer abcdefghij"))
    (entry,) = stream.entries
    assert "ValueError: boom" in entry["exception"]
    assert "abcdefghij" not in entry["exception"]


def test_libraries_log_to_the_same_place() -> None:
    stream = Stream()
    configure_logging(stream=stream)
    logging.getLogger("aiohttp.server").warning("odd request from %s", "x")
    logging.getLogger("aiohttp.server").info("not our business")
    assert [(e["component"], e["event"]) for e in stream.entries] == [
        ("aiohttp.server", "odd request from x")
    ]


def test_what_json_cannot_hold_is_written_as_text() -> None:
    stream = Stream()
    configure_logging(stream=stream)
    structlog.get_logger().info("odd", value=object, keys={1: {2}})
    assert stream.entries[0]["event"] == "odd"


@pytest.mark.parametrize(
    "key",
    [
        "token",
        "Authorization",
        "kubeconfig",
        "password",
        "client_key",
        "client-key-data",
        "api_key",
        "bearer_token",
        "secret",
    ],
)
def test_what_sounds_like_a_secret_is_masked_at_any_depth(key: str) -> None:
    got = redact(None, "info", {key: "x", "a": {"b": [{key: "x"}, ({key: {"c": "x"}},)]}})
    assert got == {key: REDACTED, "a": {"b": [{key: REDACTED}, [{key: REDACTED}]]}}


def test_the_data_of_a_secret_is_masked() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "eA=="}, "stringData": {}}
    got = redact(None, "info", {"obj": secret})
    assert got["obj"] == {
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": REDACTED,
        "stringData": REDACTED,
    }


@pytest.mark.parametrize(
    "text",
    ["sent Bearer abc.def-ghi_jkl", "Authorization: basic dXNlcjpwYXNzd29yZA=="],
)
def test_credentials_inside_texts_are_masked(text: str) -> None:
    got = redact(None, "info", {"error": text, "list": [text]})
    assert "abc.def" not in str(got)
    assert "dXNl" not in str(got)


def test_names_of_secrets_and_ordinary_values_stay() -> None:
    event = {
        "secret_name": "worker-a",
        "workload": "a/b",
        "n": 3,
        "none": None,
        "x": "Basically ok",
    }
    assert redact(None, "info", dict(event)) == event


def test_endless_depth_is_cut() -> None:
    deep: dict[str, Any] = {}
    deep["self"] = deep
    assert REDACTED in str(redact(None, "info", {"deep": deep}))
