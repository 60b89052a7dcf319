"""Which dispatchers there are, and what is said when one cannot be used."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest
from multiqueue_dispatchers.all_at_once import AllAtOnce
from multiqueue_dispatchers.external import External
from multiqueue_dispatchers.incremental import Incremental
from multiqueue_dispatchers.score import Score

from multiqueue.api import names
from multiqueue.dispatcher_host.registry import ENTRY_POINT_GROUP, Dispatchers
from tests.dispatcher_package import install


class Waits:
    name = "waits"

    async def nominate(self, view: object) -> None:
        raise NotImplementedError


def make_point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP)


def test_the_built_in_ones_are_installed():
    dispatchers = Dispatchers()
    assert {"all-at-once", "score", names.DISPATCHER_ALL_AT_ONCE} <= set(dispatchers.names)
    assert isinstance(dispatchers.select(names.DISPATCHER_ALL_AT_ONCE).dispatcher, AllAtOnce)
    assert isinstance(dispatchers.select("score").dispatcher, Score)
    assert isinstance(dispatchers.select("external").dispatcher, External)
    for name in ("incremental", names.DISPATCHER_INCREMENTAL):
        assert isinstance(dispatchers.select(name).dispatcher, Incremental)


def test_each_use_of_one_has_its_own():
    """Two profiles may ask at the same time; a dispatcher is called once at a time."""
    dispatchers = Dispatchers()
    assert dispatchers.select("score").dispatcher is not dispatchers.select("score").dispatcher


def test_no_package_takes_the_place_of_a_dispatcher_of_ours():
    theirs = make_point("score", "a_package:Score")
    ours = make_point("score", "multiqueue_dispatchers.score:Score")
    for installed in ([theirs, ours], [ours, theirs]):
        found = Dispatchers(installed=installed).find("score")
        assert isinstance(found.dispatcher, Score)


def test_an_unknown_name_is_told_with_the_known_ones():
    got = Dispatchers({"mine": Score()}, installed=()).select("theirs")
    assert got.dispatcher is None
    assert got.problem.startswith('dispatcher "theirs" is not installed; installed are: mine.')


def test_a_misspelt_name_is_told_with_the_one_that_may_be_meant():
    problem = Dispatchers().select("scorre").problem
    assert problem.startswith('dispatcher "scorre" is not installed; did you mean "score"? Install')


def test_a_name_with_a_slash_that_is_not_installed_means_somebody_outside():
    """M-116: that is how upstream is told; a bare word is a misspelt plugin."""
    got = Dispatchers().select("example.com/theirs")
    assert isinstance(got.dispatcher, External)
    assert (got.name, got.problem) == ("example.com/theirs", "")
    assert "is not installed; a controller of that name outside" in got.notice
    assert Dispatchers().select("external").notice == ""
    assert Dispatchers().select("theirs").problem
    assert Dispatchers(installed=()).select("example.com/theirs").problem


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_such_module:X", "cannot be loaded: ModuleNotFoundError"),
        ("multiqueue_dispatchers.score:NoSuch", "cannot be loaded: AttributeError"),
        ("builtins:zip", "has no name or no nominate(view)"),
        (f"{__name__}:Waits", "has an async nominate; write it with def, without async"),
    ],
)
def test_one_that_cannot_be_loaded_is_told(value, words):
    got = Dispatchers(installed=[make_point("broken", value)]).select("broken")
    assert got.dispatcher is None
    assert words in got.problem


PACKAGE = """
from multiqueue.plugins import DispatchView, Nomination


class LastByName:
    name = "example.com/last"

    def nominate(self, view: DispatchView) -> Nomination:
        usable = sorted(c.name for c in view.clusters if not c.unusable)
        return Nomination(clusters=tuple(usable[-1:]))
"""


def test_a_package_of_somebody_else_s_is_found_by_its_entry_point(tmp_path, monkeypatch):
    install(tmp_path, "last_by_name", PACKAGE, {"example.com/last": "LastByName"})
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        selection = Dispatchers().select("example.com/last")
        assert selection.problem == ""
        assert selection.dispatcher.name == "example.com/last"
    finally:
        sys.modules.pop("last_by_name", None)


def test_one_of_somebody_else_s_can_be_left_apart(tmp_path, monkeypatch):
    install(tmp_path, "last_by_name", PACKAGE, {"example.com/last": "LastByName"})
    monkeypatch.syspath_prepend(str(tmp_path))
    got = Dispatchers().find("example.com/last")
    assert (got.dispatcher, got.apart, got.problem) == (None, "last_by_name:LastByName", "")
    assert "last_by_name" not in sys.modules
    assert isinstance(Dispatchers().find("score").dispatcher, Score)
    assert isinstance(Dispatchers().find("example.com/theirs").dispatcher, External)
    assert Dispatchers({"mine": Score()}, installed=()).find("mine").dispatcher is not None
    assert "is not installed" in Dispatchers().find("theirs").problem
