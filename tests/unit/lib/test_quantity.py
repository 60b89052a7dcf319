from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.lib.quantity import (
    MAX_INT64,
    Quantity,
    QuantityError,
    QuantityFormat,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("0", 0),
        ("1", 10**9),
        ("+1", 10**9),
        ("-1", -(10**9)),
        ("0001", 10**9),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        ("1.5", 15 * 10**8),
        ("1n", 1),
        ("1u", 10**3),
        ("1m", 10**6),
        ("1k", 10**12),
        ("1M", 10**15),
        ("1G", 10**18),
        ("1T", 10**21),
        ("1P", 10**24),
        ("1E", 10**27),
        ("1Ki", 1024 * 10**9),
        ("1Mi", 1024**2 * 10**9),
        ("1Gi", 1024**3 * 10**9),
        ("1Ti", 1024**4 * 10**9),
        ("1Pi", 1024**5 * 10**9),
        ("1Ei", 1024**6 * 10**9),
        ("1e3", 10**12),
        ("1E3", 10**12),
        ("12e-3", 12 * 10**6),
        ("1.5e+2", 150 * 10**9),
        (" 1 ", 10**9),
        ("0.1Gi", -(-(1024**3 * 10**9) // 10)),
        ("0.0000000001", 1),
        ("-0.0000000001", -1),
        ("1e-300", 1),
        ("0e300", 0),
    ],
)
def test_reads_every_notation_exactly(text: str, nano: int) -> None:
    assert parse_quantity(text).nano == nano


@pytest.mark.parametrize("text", ["1e999999999999", "9" * 5000, "10000000000000000000", "16Ei"])
def test_caps_at_the_largest_int64(text: str) -> None:
    assert parse_quantity(text).value() == MAX_INT64
    assert parse_quantity("-" + text).value() == -MAX_INT64


@pytest.mark.parametrize(
    ("raw", "want"),
    [(5, "5"), (1.5, "1500m"), (1e16, "10e15"), (0.1, "100m"), (10**30, str(MAX_INT64))],
)
def test_reads_json_numbers(raw: float, want: str) -> None:
    assert str(parse_quantity(raw)) == want


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("", "must not be empty"),
        ("  ", "must not be empty"),
        ("abc", "is not a quantity"),
        (".", "is not a quantity"),
        ("+", "is not a quantity"),
        ("1 Gi", "is not a quantity"),
        ("1.2.3", "is not a quantity"),
        ("--1", "is not a quantity"),
        ("1GB", 'unknown suffix "GB"'),
        ("1ki", 'unknown suffix "ki"'),
        ("1K", 'unknown suffix "K"'),
        ("1e", "exponent without digits"),
        ("1e+", "incomplete exponent"),
        ("1m3", "misplaced or incomplete exponent"),
        ("1e1.5", "is not a quantity"),
        ("x" * 100, "..."),
        (math.nan, "not a finite number"),
        (math.inf, "not a finite number"),
        (True, "not bool"),
        (None, "not NoneType"),
    ],
)
def test_says_what_is_wrong(raw: object, says: str) -> None:
    with pytest.raises(QuantityError, match=says.replace("+", r"\+").replace(".", r"\.")):
        parse_quantity(raw)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1", 1, 1000),
        ("1m", 1, 1),
        ("1u", 1, 1),
        ("1001m", 2, 1001),
        ("-1m", -1, -1),
        ("-1001m", -2, -1001),
        ("2Ki", 2048, 2_048_000),
    ],
)
def test_rounds_away_from_zero(text: str, value: int, milli: int) -> None:
    quantity = parse_quantity(text)
    assert (quantity.value(), quantity.milli_value()) == (value, milli)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1500", "1500"),
        ("1000", "1k"),
        ("0.0015", "1500u"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.25Mi", "256Ki"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("5e0", "5"),
        ("-1024Ki", "-1Mi"),
        ("1E", "1E"),
        ("100E", "100E"),
        ("1e30", "1e30"),
        ("0.0001Ki", "102400u"),
    ],
)
def test_prints_the_canonical_form(text: str, want: str) -> None:
    assert str(parse_quantity(text)) == want


def test_compares_by_number() -> None:
    assert parse_quantity("1") == parse_quantity("1000m")
    assert hash(parse_quantity("1")) == hash(parse_quantity("1000m"))
    assert parse_quantity("1Gi") > parse_quantity("1G")
    assert parse_quantity("999m") <= parse_quantity("1")
    assert parse_quantity("1") != "1"
    assert not parse_quantity("0m")


def test_arithmetic_keeps_the_format_of_the_first_non_zero_operand() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1Gi")) == "2Gi"
    assert str(parse_quantity("0") + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("2") - parse_quantity("500m")) == "1500m"
    assert str(parse_quantity("500m") * 3) == "1500m"
    assert (-parse_quantity("1")).sign == -1
    assert Quantity.of(2048, QuantityFormat.BINARY_SI).sign == 1
    assert str(Quantity.of_milli(1500)) == "1500m"


@given(
    st.integers(-(10**20), 10**20),
    st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Mi", "e3", "e-3"]),
)
def test_printing_loses_nothing(number: int, suffix: str) -> None:
    quantity = parse_quantity(f"{number}{suffix}")
    assert parse_quantity(str(quantity)) == quantity


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_quantity(text)
    except QuantityError as error:
        assert str(error)  # noqa: PT017
