"""Splits whole numbers."""

from __future__ import annotations

from collections.abc import Mapping


def share_out(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Split a number by weight into whole numbers; the largest remainders are rounded up."""
    everything = sum(weights.values())
    exact = {name: total * weight / everything for name, weight in sorted(weights.items())}
    shares = {name: int(amount) for name, amount in exact.items()}
    order = sorted(exact, key=lambda name: (shares[name] - exact[name], name))
    for name in order[: total - sum(shares.values())]:
        shares[name] += 1
    return shares
