"""Addresses and networks: ``ip("10.0.0.1")``, ``cidr("10.0.0.0/8")``."""

import re
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)

from multiqueue.lib.cel.functions.function import (
    Opaque,
    Overload,
    function,
    method,
    plain,
)

Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface


def _read_address(text: str) -> Address:
    """An address without zone; IPv4 inside of IPv6 is not accepted."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f"IP address {text!r} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise ValueError(f"IPv4-mapped IPv6 address {text!r} is not allowed")
    return address


def _read_network(text: str) -> Network:
    """An address with the length of its prefix; host bits may be set."""
    if not re.fullmatch(r"[0-9A-Fa-f.:]+/(0|[1-9][0-9]{0,2})", text):
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    network = ip_interface(text)
    _read_address(str(network.ip))
    return network


def _is_address(text: str) -> bool:
    try:
        _read_address(text)
    except ValueError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        _read_network(text)
    except ValueError:
        return False
    return True


def _is_global_unicast(address: Address) -> bool:
    """As Go says it: whatever is not broadcast, unspecified, loopback, multicast, link local."""
    return not (
        str(address) == "255.255.255.255"
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _is_link_local_multicast(address: Address) -> bool:
    network = "224.0.0.0/24" if address.version == 4 else "ff02::/16"
    return address.is_multicast and _contains(ip_interface(network), address)


def _contains(network: Network, address: Address) -> bool:
    return network.version == address.version and address in network.network


def _contains_network(network: Network, other: Network) -> bool:
    return _contains(network, other.ip) and network.network.prefixlen <= other.network.prefixlen


IP = Opaque(name="kubernetes.IP", read=_read_address)
CIDR = Opaque(name="kubernetes.CIDR", read=_read_network)

NETWORK = (
    plain("isIP", "is_ip", ("string",), "bool", _is_address),
    plain("isCIDR", "is_cidr", ("string",), "bool", _is_network),
    plain("cidr", "string_to_cidr", ("string",), CIDR, _read_network),
    function(
        "ip",
        Overload(id="string_to_ip", params=("string",), result=IP, call=_read_address),
        Overload(
            id="cidr_ip", params=(CIDR,), result=IP, member=True, call=lambda network: network.ip
        ),
    ),
    plain(
        "ip.isCanonical",
        "ip_is_canonical",
        ("string",),
        "bool",
        lambda text: str(_read_address(text)) == text,
    ),
    function(
        "string",
        Overload(id="ip_to_string", params=(IP,), result="string", call=str),
        Overload(id="cidr_to_string", params=(CIDR,), result="string", call=str),
    ),
    method("family", "ip_family", (IP,), "int", lambda address: address.version),
    method("isUnspecified", "ip_unspecified", (IP,), "bool", lambda ip: ip.is_unspecified),
    method("isLoopback", "ip_loopback", (IP,), "bool", lambda ip: ip.is_loopback),
    method(
        "isLinkLocalMulticast", "ip_link_local_multicast", (IP,), "bool", _is_link_local_multicast
    ),
    method("isLinkLocalUnicast", "ip_link_local", (IP,), "bool", lambda ip: ip.is_link_local),
    method("isGlobalUnicast", "ip_global_unicast", (IP,), "bool", _is_global_unicast),
    function(
        "containsIP",
        Overload(
            id="cidr_contains_ip_string",
            params=(CIDR, "string"),
            result="bool",
            member=True,
            call=lambda network, text: _contains(network, _read_address(text)),
        ),
        Overload(
            id="cidr_contains_ip", params=(CIDR, IP), result="bool", member=True, call=_contains
        ),
    ),
    function(
        "containsCIDR",
        Overload(
            id="cidr_contains_cidr_string",
            params=(CIDR, "string"),
            result="bool",
            member=True,
            call=lambda network, text: _contains_network(network, _read_network(text)),
        ),
        Overload(
            id="cidr_contains_cidr",
            params=(CIDR, CIDR),
            result="bool",
            member=True,
            call=_contains_network,
        ),
    ),
    method("prefixLength", "cidr_prefix_length", (CIDR,), "int", lambda it: it.network.prefixlen),
    method(
        "masked",
        "cidr_masked",
        (CIDR,),
        CIDR,
        lambda it: ip_interface(it.network.with_prefixlen),
    ),
)
