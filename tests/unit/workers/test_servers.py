"""One worker under two names."""

from __future__ import annotations

import pytest

from multiqueue.workers.connections.servers import HERE, ServerTable
from multiqueue.workers.kubeconfigs.addresses import identify_server

OLD, NEW = ("2026-01-01T00:00:00Z", "b"), ("2026-01-02T00:00:00Z", "a")


def test_the_oldest_name_of_a_server_counts():
    table = ServerTable()
    assert table.update(NEW, "https://one") == ()
    assert table.find_elder("a") is None
    assert table.update(OLD, "https://one") == ("a",)
    assert (table.find_elder("a"), table.find_elder("b")) == ("b", None)


def test_equal_ages_are_told_apart_by_name():
    table = ServerTable()
    for name in ("y", "x"):
        table.update((OLD[0], name), "https://one")
    assert (table.find_elder("y"), table.find_elder("x")) == ("x", None)


@pytest.mark.parametrize("stated", ["uid", None], ids=["connected", "after a start"])
def test_a_name_that_gets_the_kubeconfig_of_another_does_not_take_over_its_server(stated):
    table = ServerTable()
    for age, known in ((OLD, "other"), (NEW, "uid")):
        table.remember(age[1], known)
        table.update(age, "https://one")
    if stated:
        table.identify("a", stated)
    assert table.identify("b", "uid") == ("a",)
    assert (table.find_elder("a"), table.find_elder("b")) == (None, "a")


@pytest.mark.parametrize("stated", ["uid", None], ids=["connected", "after a start"])
def test_a_name_that_gets_the_kubeconfig_of_a_younger_one_does_not_stop_it(stated):
    table = ServerTable()
    for age, server, known in ((OLD, "https://one", "other"), (NEW, "https://two", "uid")):
        table.remember(age[1], known)
        table.update(age, server)
        if stated:
            table.identify(age[1], known)
    table.update(OLD, "https://two", connected=bool(stated))
    assert (table.find_elder("a"), table.find_elder("b")) == (None, None)
    assert table.identify("b", "uid") == ("a",)
    assert (table.find_elder("a"), table.find_elder("b")) == (None, "a")


def test_what_a_name_was_does_not_stop_the_one_that_is_there_now():
    table = ServerTable()
    table.update(NEW, "https://one")
    table.identify("a", "uid")
    for name in "ab":
        table.remember(name, "uid")
    table.update(OLD, "https://two")
    assert (table.find_elder("a"), table.find_elder("b")) == (None, None)
    table.identify("b", "uid")
    assert (table.find_elder("a"), table.find_elder("b")) == ("b", None)


def test_a_name_that_is_still_connected_to_its_last_server_is_not_used_beside_another():
    table = ServerTable()
    table.update(NEW, "https://one")
    table.identify("a", "uid")
    for name in "ab":
        table.remember(name, "uid")
    table.update(NEW, "https://two", connected=True)
    table.update(OLD, "https://one")
    table.identify("b", "uid")
    assert (table.find_elder("a"), table.find_elder("b")) == ("b", None)


def test_a_server_is_known_before_it_states_anything():
    table = ServerTable()
    table.remember("a", "uid")
    table.update(OLD, "https://one")
    table.update(NEW, "https://two")
    table.identify("b", "uid")
    assert (table.find_elder("a"), table.find_elder("b")) == (None, "a")


@pytest.mark.parametrize("server", [None, "https://two"])
def test_the_younger_counts_when_the_older_is_gone_or_elsewhere(server):
    table = ServerTable()
    table.update(OLD, "https://one")
    table.update(NEW, "https://one")
    assert table.update(OLD, server) == ("a",)
    assert table.find_elder("a") is None


def test_one_server_under_two_addresses_is_known_by_what_it_says():
    table = ServerTable()
    table.update(OLD, "https://one")
    table.update(NEW, "https://two")
    assert list(table.find_unidentified("a")) == ["b"]
    assert list(table.find_unidentified("b")) == []
    assert table.identify("a", "uid") == ()
    assert table.identify("b", "uid") == ("a",)
    assert (table.find_elder("a"), table.find_elder("b")) == ("b", None)
    assert list(table.find_unidentified("a")) == []
    assert table.identify("b", "rebuilt") == ("a",)
    assert table.find_elder("a") is None


def test_servers_that_do_not_say_what_they_are_are_told_apart_by_address():
    table = ServerTable()
    for age, address in ((OLD, "https://one"), (NEW, "https://two")):
        table.update(age, address)
        table.identify(age[1], "")
    assert table.find_elder("a") is None
    assert list(table.find_unidentified("a")) == []


def test_another_kubeconfig_has_to_be_identified_anew():
    table = ServerTable()
    for age, address in ((OLD, "https://one"), (NEW, "https://two")):
        table.update(age, address)
        table.identify(age[1], "uid")
    assert table.update(OLD, "https://three") == ("a",)
    assert table.find_elder("a") is None
    assert list(table.find_unidentified("a")) == ["b"]


def test_nothing_new_asks_nobody():
    table = ServerTable()
    table.update(OLD, "https://one")
    table.update(NEW, "https://one")
    assert table.update(OLD, "https://one") == ()


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        ({"server": "https://API.example.com/"}, "https://api.example.com:443"),
        ({"server": "https://127.0.0.1:8080/k8s/"}, "https://127.0.0.1:8080/k8s"),
        ({"server": "HTTPS://api.example.com:6443"}, "https://api.example.com:6443"),
        ({"server": "http://a_b:1"}, "http://a_b:1"),
        ({"server": "https://[FD00::1]"}, "https://[fd00::1]:443"),
        (
            {"server": "https://c", "proxy-url": "http://p", "tls-server-name": "n"},
            "https://c:443 http://p n",
        ),
    ],
)
def test_one_spelling_for_every_way_to_a_server(cluster, want):
    assert identify_server(cluster) == want


def test_a_name_that_leads_to_the_managers_own_server_is_younger_than_it():
    table = ServerTable()
    table.add_own("https://here", "our-uid")
    for name, server in (("a", "https://here"), ("b", "https://other"), ("c", "https://third")):
        assert table.update((OLD[0], name), server) == ()
    assert table.identify("b", "our-uid") == ()
    assert table.identify("c", "") == ()
    assert [table.find_elder(name) for name in "abc"] == [HERE, HERE, None]
    assert list(table.find_unidentified("c")) == ["a"]
    assert table.note_own("c") == ("b",)
    assert table.find_elder("c") == HERE


def test_the_managers_own_server_is_known_without_its_uid():
    table = ServerTable()
    table.add_own("https://here", "")
    table.remember("a", "uid")
    table.update(NEW, "https://here")
    assert table.find_elder("a") == HERE
    table.update(OLD, "https://elsewhere")
    table.identify("b", "")
    assert table.find_elder("b") is None
    table.note_own("b")
    assert table.find_elder("b") == HERE
