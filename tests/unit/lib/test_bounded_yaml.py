"""YAML of others is read within bounds, or refused in words that repeat nothing of it."""

from __future__ import annotations

import pytest

from multiqueue.lib.bounded_yaml import YamlError, YamlLimits, load, load_documents

SMALL = YamlLimits(size=1 << 20, nodes=1_000, levels=20)
MERGED = "a: &a {k: v}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
NESTED = "x0: &0 [a]\n" + "".join(f"x{n}: &{n} [*{n - 1}]\n" for n in range(1, 30))
LONG = "- &a " + "x" * 100_000 + "\n" + "- *a\n" * 100


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: &a [1, 2.5, yes, ~]\nb: *a", {"a": [1, 2.5, True, None], "b": [1, 2.5, True, None]}),
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: 2026-99-99", {"a": "2026-99-99"}),
        ("a: !!timestamp 2026-01-01", {"a": "2026-01-01"}),
        ("a: {<<: {b: c}, d: e}", {"a": {"b": "c", "d": "e"}}),
        (b'{"a": [1]}', {"a": [1]}),
    ],
)
def test_what_json_can_say_is_read(text, value):
    assert load(text, SMALL) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x: " + "[" * 100_000 + "]", "nested more than 20 levels"),
        ("- " * 100_000, "nested more than 20 levels"),
        ("[" + "a," * 2_000 + "]", "more than 1,000 values"),
        ("x" * (1 << 20) + "x", "larger than 1,048,576 bytes"),
        (MERGED, "excessive aliasing: more than 1,000 values"),
        (NESTED, "excessive aliasing: its references nest too deep"),
        (LONG, "excessive aliasing: its references repeat too much text"),
        ("a: &a [*a]", "contains itself"),
        ("a: " + "9" * 5_000, "line 1: a number has more than 400 digits"),
        ("a: 0x" + "f" * 5_000, "a number has more than 400 digits"),
        ("a: 1" + ":1" * 100_000, "a number has more than 400 digits"),
        ("a: !!bool secret", "does not fit its tag"),
        ("a: !!int ''", "does not fit its tag"),
        ("a: !!secret x", "line 1: could not determine a constructor for the tag"),
        ("a\n---\nb", "line 3: a second document"),
        ("a: *secret", "line 1: found undefined alias"),
        ("a: [b", "did not find expected ',' or ']'"),
        ("\ud800", "not UTF-8"),
        (b"\xff", "a character that YAML does not allow"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_what_is_too_much_or_none_is_refused(text, words):
    with pytest.raises(YamlError) as refused:
        load(text, SMALL)
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


def test_documents_come_with_their_lines():
    got = [(document.line, document.value) for document in load_documents("a: 1\n---\n\nb: 2\n")]
    assert got == [(1, {"a": 1}), (4, {"b": 2})]


def test_anchors_end_with_their_document():
    with pytest.raises(YamlError, match="undefined alias"):
        load_documents("&a b\n---\n*a")
