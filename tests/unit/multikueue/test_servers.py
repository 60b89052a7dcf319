"""One worker under two names."""

from __future__ import annotations

import pytest

from multiqueue.multikueue.credentials import identify_server
from multiqueue.multikueue.servers import ServerTable

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


@pytest.mark.parametrize("server", [None, "https://two"])
def test_the_younger_counts_when_the_older_is_gone_or_elsewhere(server):
    table = ServerTable()
    table.update(OLD, "https://one")
    table.update(NEW, "https://one")
    assert table.update(OLD, server) == ("a",)
    assert table.find_elder("a") is None


def test_nothing_new_asks_nobody():
    table = ServerTable()
    table.update(OLD, "https://one")
    table.update(NEW, "https://one")
    assert table.update(OLD, "https://one") == ()


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        ({"server": "https://API.example.com/"}, "https://api.example.com:443"),
        ({"server": "http://127.0.0.1:8080/k8s/"}, "http://127.0.0.1:8080/k8s"),
        ({"server": "api.example.com:6443"}, "https://api.example.com:6443"),
        (
            {"server": "https://c", "proxy-url": "http://p", "tls-server-name": "n"},
            "https://c:443 http://p n",
        ),
    ],
)
def test_one_spelling_for_every_way_to_a_server(cluster, want):
    assert identify_server(cluster) == want
