"""Finds problems with the addresses of a kubeconfig or ClusterProfile. Pure.

The manager sends a token to the address, so it must use https, and no proxy that the manager's own
configuration does not allow. Messages name keys, never values.

Deviates: upstream accepts http, and every proxy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from multiqueue.lib.server_address import PROXY_SCHEMES, AddressError, is_host, parse_server

ALLOWED_PROXIES = "multiKueue.allowedProxies"


def find_address_problems(
    what: str, cluster: Mapping[str, Any], proxies: Collection[str]
) -> Iterator[str]:
    """Yield the problems with the addresses of a cluster.

    Args:
        what: The object with the addresses, in words, with its name.
        cluster: The entry of a kubeconfig, or of a ClusterProfile.
        proxies: The proxies that the manager's configuration allows.
    """
    if cluster.get("server") is None or cluster["server"] == "":
        yield f"{what} has no server"
        return
    try:
        parse_server(cluster["server"])
    except AddressError as error:
        yield f"{what} has a server that {error}"
    name = cluster.get("tls-server-name")
    if name and not (isinstance(name, str) and is_host(name.lower())):
        yield f"{what} has a tls-server-name that is neither an IP address nor a host name"
    proxy = cluster.get("proxy-url")
    if not proxy:
        return
    try:
        address = parse_server(proxy, schemes=PROXY_SCHEMES, allow_user=True)
    except AddressError as error:
        yield f"{what} has a proxy-url that {error}"
        return
    if address not in {parse_server(each, schemes=PROXY_SCHEMES) for each in proxies}:
        yield (
            f"{what} has a proxy-url that the manager's configuration does not allow; remove it, "
            f"or add the proxy to {ALLOWED_PROXIES}"
        )


def identify_server(cluster: Mapping[str, Any]) -> str:
    """Return the same text for all entries that lead to the same API server the same way.

    Behind different proxies, or under different TLS names, equal addresses are different servers.
    An address that no worker may have, such as the manager's own in a test, equals none of theirs.
    """
    try:
        address = str(parse_server(cluster["server"]))
    except AddressError:
        address = str(cluster["server"])
    way = (address, cluster.get("proxy-url") or "", cluster.get("tls-server-name") or "")
    return " ".join(filter(None, way))
