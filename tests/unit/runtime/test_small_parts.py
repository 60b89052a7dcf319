"""Addresses, files and the process's signals."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest
import yaml

from multiqueue.runtime.addresses import parse_bind_address
from multiqueue.runtime.files import write_yaml
from multiqueue.runtime.manifests import contains_fields
from multiqueue.runtime.process import Stopped, run_process


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8443", ("", 8443)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:81", ("::1", 81)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse_bind_address(text) == address


@pytest.mark.parametrize("text", ["8443", "host", "host:port", ":70000"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        parse_bind_address(text)


def test_files_are_for_the_owner_only_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kubeconfig"
    write_yaml(path, {"a": 1})
    write_yaml(path, {"a": 2})
    assert yaml.safe_load(path.read_text()) == {"a": 2}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["kubeconfig"]


@pytest.mark.parametrize(
    ("current", "wanted", "same"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="others' fields do not matter"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, False, id="a value differs"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, False, id="lists are whole"),
        pytest.param({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True, id="defaulted items"),
        pytest.param({}, {"a": {}}, False, id="a field is missing"),
    ],
)
def test_what_an_object_has_already(current: object, wanted: object, *, same: bool) -> None:
    assert contains_fields(current, wanted) is same


def test_a_signal_lets_the_process_tidy_up() -> None:
    tidied = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            tidied.append(True)

    with pytest.raises(Stopped, match="SIGTERM") as stopped:
        run_process(work)
    assert (tidied, stopped.value.signal_number) == ([True], signal.SIGTERM)


def test_a_result_is_handed_on() -> None:
    async def work() -> int:
        return 7

    assert run_process(work) == 7
