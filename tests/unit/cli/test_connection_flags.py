"""kubectl's flags for the connection, as fields of the kubeconfig."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest

from multiqueue.cli.connect import ClusterTarget, cluster_options
from multiqueue.cli.connection_flags import NO_LIMIT, ConnectionFlags, take_flags
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.main import cli
from multiqueue.kube.kubeconfig import KubeconfigContext

CA = {"certificate-authority-data": "Y2E="}
PICKED = KubeconfigContext(
    name="here",
    context={},
    namespace="team",
    cluster_name="c",
    cluster={"server": "https://a:6443", "tls-server-name": "a", **CA},
    user_name="u",
    user={"client-certificate-data": "YQ==", "client-key-data": "Yg==", "as": "alice"},
)


def adjusted(**options: Any) -> KubeconfigContext:
    return take_flags(options).adjust(PICKED)


def test_no_flag_changes_nothing() -> None:
    assert adjusted() == PICKED
    assert take_flags({"as_group": (), "request_timeout": None}) == ConnectionFlags()


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"server": "https://b"}, {"server": "https://b", **CA}),
        (
            {"server": "https://b", "tls_server_name": "a"},
            {"server": "https://b", "tls-server-name": "a", **CA},
        ),
        (
            {"insecure_skip_tls_verify": True},
            {
                "server": "https://a:6443",
                "tls-server-name": "a",
                "insecure-skip-tls-verify": True,
            },
        ),
        (
            {"certificate_authority": "ca.crt"},
            {
                "server": "https://a:6443",
                "tls-server-name": "a",
                "certificate-authority": "ca.crt",
            },
        ),
    ],
)
def test_flags_of_the_cluster(options: dict[str, Any], want: dict[str, Any]) -> None:
    assert adjusted(**options).cluster == want


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"token": "t"}, {"token": "t", "as": "alice"}),
        (
            {"client_certificate": "c", "client_key": "k"},
            {"client-certificate": "c", "client-key": "k", "as": "alice"},
        ),
        (
            {"as_": "bob", "as_uid": "7", "as_group": ("x", "y")},
            {**PICKED.user, "as": "bob", "as-uid": "7", "as-groups": ["x", "y"]},
        ),
    ],
)
def test_flags_of_the_user(options: dict[str, Any], want: dict[str, Any]) -> None:
    assert adjusted(**options).user == want


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"client_key": "k"}, "--client-certificate and --client-key: give both of them"),
        ({"as_group": ("x",)}, "--as-uid, --as-group: name the user with --as too"),
        ({"server": "b:6443"}, '--server "b:6443": write https://HOST:PORT'),
    ],
)
def test_a_flag_that_lacks_something_says_what(options: dict[str, Any], want: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        take_flags({"server": "https://b", **options}).as_kubeconfig()
    assert str(caught.value) == want


def test_a_request_may_take_any_time() -> None:
    seen: list[float | None] = []

    @click.command()
    @cluster_options
    def probe(target: ClusterTarget) -> None:
        seen.append(target.flags.timeout)

    for given in (
        [],
        ["--request-timeout", "90"],
        ["--request-timeout=2m"],
        ["--request-timeout=0"],
    ):
        probe.main(given, standalone_mode=False)
    assert seen == [None, 90, 120, NO_LIMIT]


def walk(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            child = context.command.get_command(context, name)
            assert child is not None
            yield from walk(click.Context(child, info_name=name, parent=context))


def test_no_command_has_an_option_twice() -> None:
    for context in walk(click.Context(cli, info_name="multiqueue")):
        names = [
            name for each in context.command.params for name in (*each.opts, *each.secondary_opts)
        ]
        assert len(names) == len(set(names)), context.command_path
