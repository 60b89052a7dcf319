"""Which texts are whole numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiqueue.lib.digits import MAX_DIGITS, is_number

PRODUCT = Path(__file__).parents[3] / "multiqueue"


@pytest.mark.parametrize("text", ["0", "007", "9" * MAX_DIGITS])
def test_a_number_is_one_that_int_reads(text: str) -> None:
    assert is_number(text)
    assert str(int(text)) == text.lstrip("0") or "0"


@pytest.mark.parametrize("text", ["", "²", "٣", "-1", "+1", "1.5", "1_0", " 1", "9" * 19])
def test_other_texts_are_none(text: str) -> None:
    assert not is_number(text)


def test_the_product_asks_no_method_that_takes_a_power_for_a_digit() -> None:
    """``"²".isdigit()`` holds, and ``int`` refuses it."""
    found = [
        f"{path.relative_to(PRODUCT)}: {word}"
        for path in sorted(PRODUCT.rglob("*.py"))
        for word in (".isdigit", "str.isdigit", ".isnumeric")
        if word in path.read_text()
    ]
    assert found == []
