"""What commands say that need the libraries of the embedded cluster."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from multiqueue.cli.commands import apiserver, demo
from multiqueue.cli.errors import CliError
from multiqueue.cli.local_extra import require_local_extra


class Hidden:
    """Finds no module of the hidden packages, as if they were not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in {"jsonpatch", "cel_expr_python"}:
            raise ModuleNotFoundError(name)


@pytest.mark.parametrize("command", [demo.command, apiserver.command], ids=["demo", "apiserver"])
def test_a_missing_library_is_named_with_what_to_install(
    command: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jsonpatch", "cel_expr_python"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    result = CliRunner().invoke(command, [])  # type: ignore[arg-type]
    assert isinstance(result.exception, CliError)
    assert "(cel_expr_python, jsonpatch)" in str(result.exception)
    assert "pip install 'multiqueue[local]'" in str(result.exception)


def test_nothing_is_refused_if_all_are_installed() -> None:
    require_local_extra("multiqueue demo")
