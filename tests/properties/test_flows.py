"""Who lends to whom in a cohort (S-67): sums, bounds, order, and small changes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from multiqueue.views.flows import build_flows, split_pro_rata

names = st.sampled_from("abcdefgh")
amounts = st.dictionaries(names, st.integers(0, 1000), min_size=1)


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int]]:
    """What members borrow, and what others could lend: at least as much."""
    lendable = draw(amounts)
    left, borrowed = sum(lendable.values()), {}
    for name in draw(st.lists(st.sampled_from("uvwxyz"), unique=True)):
        borrowed[name] = draw(st.integers(0, left))
        left -= borrowed[name]
    return borrowed, lendable


@given(cohorts())
def test_flows_add_up_to_what_is_borrowed_and_no_lender_gives_more_than_it_has(
    cohort: tuple[dict[str, int], dict[str, int]],
) -> None:
    borrowed, lendable = cohort
    flows = build_flows(borrowed, lendable)
    received, given_ = Counter[str](), Counter[str]()
    for flow in flows:
        assert flow.amount > 0
        received[flow.borrower] += flow.amount
        given_[flow.lender] += flow.amount
    assert received == Counter({name: amount for name, amount in borrowed.items() if amount})
    assert all(amount <= lendable[name] for name, amount in given_.items())
    assert len({flow[:2] for flow in flows}) == len(flows)


@given(cohorts())
def test_the_order_of_the_input_does_not_matter(
    cohort: tuple[dict[str, int], dict[str, int]],
) -> None:
    borrowed, lendable = cohort
    backwards = dict(reversed(borrowed.items())), dict(reversed(lendable.items()))
    assert build_flows(*backwards) == build_flows(borrowed, lendable)


@given(amounts, st.integers(0, 2000))
def test_one_more_borrowed_unit_moves_at_most_one_unit_of_each_lender(
    lendable: dict[str, int], total: int
) -> None:
    before, after = split_pro_rata(total, lendable), split_pro_rata(total + 1, lendable)
    assert all(abs(after[name] - before[name]) <= 1 for name in lendable)


@given(amounts, st.integers(0, 10_000))
def test_a_share_is_pro_rata_to_less_than_one_unit(lendable: dict[str, int], total: int) -> None:
    most = sum(lendable.values())
    parts = split_pro_rata(total, lendable)
    assert sum(parts.values()) == min(total, most)
    for name, part in parts.items():
        assert most == 0 or abs(part * most - min(total, most) * lendable[name]) < most
