"""Who lends quota to whom in a cohort. Pure.

Kueue records how much each member borrows, but not from whom. Here the borrowed amount is split
over the lenders pro rata of what each could lend, by the largest remainder; ties go by name.

Guarantees: a lender gives at most what it could lend. The sum over the flows is the sum of what is
borrowed. All amounts are whole. The order of the input does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Flow(NamedTuple):
    """An amount that one member lends to another."""

    lender: str
    borrower: str
    amount: int


def split_pro_rata(total: int, lendable: Mapping[str, int]) -> dict[str, int]:
    """Split an amount over lenders in proportion to what each could lend.

    Args:
        total: The amount; if all of them could lend less, it is cut to that.
        lendable: What each could lend, by name.
    """
    most = sum(lendable.values())
    total = min(total, most)
    if total <= 0:
        return dict.fromkeys(sorted(lendable), 0)
    shares = {name: divmod(total * lendable[name], most) for name in sorted(lendable)}
    parts = {name: whole for name, (whole, _) in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (-shares[name][1], name))
    for name in by_remainder[: total - sum(parts.values())]:
        parts[name] += 1
    return parts


def build_flows(borrowed: Mapping[str, int], lendable: Mapping[str, int]) -> list[Flow]:
    """Return the flows of one flavor and resource in one cohort, without zeros, by name.

    Args:
        borrowed: What each member uses above its own quota.
        lendable: What each member, the cohort itself, and its parent could lend.
    """
    lent = split_pro_rata(sum(borrowed.values()), lendable)
    lenders = iter([(name, amount) for name, amount in sorted(lent.items()) if amount > 0])
    flows = []
    lender, left = next(lenders, ("", 0))
    for borrower, amount in sorted(borrowed.items()):
        need = amount
        while need > 0 and left > 0:
            part = min(need, left)
            flows.append(Flow(lender, borrower, part))
            need, left = need - part, left - part
            if not left:
                lender, left = next(lenders, ("", 0))
    return flows
