"""Bodies that are small and yet too much are refused, before anything gives up."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from multiqueue.embedded.server.apply.patch import parse_patch
from multiqueue.embedded.server.body import decode_json, decode_yaml
from multiqueue.embedded.server.status import StatusError
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.lib.bounded_json import MAX_LEVELS
from tests.unit.embedded.server.kind_builders import kind_of

Decode = Callable[[bytes], Any]
DOUBLING = "".join(f"x{n}: &{n} [*{n - 1}, *{n - 1}]\n" for n in range(1, 60))
CHAIN = "".join(f"x{n}: &{n} [*{n - 1}]\n" for n in range(1, 5000))


@pytest.mark.parametrize("decode", [decode_json, decode_yaml])
@pytest.mark.parametrize("depth", [MAX_LEVELS + 1, 900])
def test_deep_json_is_refused(decode: Decode, depth: int) -> None:
    with pytest.raises(StatusError, match="nested more than 200 levels deep") as refused:
        decode(b'{"a":' * depth + b"1" + b"}" * depth)
    assert refused.value.code == 400


@pytest.mark.parametrize("decode", [decode_json, decode_yaml])
def test_what_is_just_deep_enough_is_read(decode: Decode) -> None:
    value = decode(b"[" * MAX_LEVELS + b"]" * MAX_LEVELS)
    for _ in range(MAX_LEVELS - 1):
        [value] = value
    assert value == []


def test_wide_json_is_read() -> None:
    assert len(decode_json(b"[" + b",".join([b"{}"] * 5000) + b"]")) == 5000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested more than"),
        ("- " * 100_000, "nested more than"),
        ("a: &a [*a]", "contains itself"),
        (f"x0: &0 [a]\n{DOUBLING}", "excessive aliasing"),
        (f"x0: &0 [a]\n{CHAIN}", "excessive aliasing"),
        ("a: !!python/object:os.system {}", "error converting YAML"),
        ("a: 1" + "0" * 5000, "error converting YAML"),
        ("{? [a]: b}", "error converting YAML"),
    ],
    ids=["brackets", "dashes", "itself", "doubling", "chain", "tag", "number", "key"],
)
def test_yaml_that_would_be_too_much_is_refused(text: str, words: str) -> None:
    with pytest.raises(StatusError, match=words) as refused:
        decode_yaml(text.encode())
    assert refused.value.code == 400


def patched(*operations: dict[str, Any]) -> Any:
    kind = kind_of("", "configmaps")
    target = OperationTarget(kind=kind, version=kind.versions[0], name="a")
    change = parse_patch(target, "application/json-patch+json", orjson.dumps(operations))
    return change.produce({"data": {"a": "x" * 1000}})


def test_copies_that_double_the_object_are_refused() -> None:
    double = [{"op": "copy", "from": "", "path": f"/{number}"} for number in range(40)]
    with pytest.raises(StatusError, match="copies of more than"):
        patched(*double)


def test_patches_that_nest_the_object_are_refused() -> None:
    deeper = [{"op": "move", "from": "/data", "path": "/x"}]
    for number in range(MAX_LEVELS):
        deeper += [
            {"op": "add", "path": f"/y{number}", "value": {}},
            {"op": "move", "from": "/x", "path": f"/y{number}/x"},
            {"op": "move", "from": f"/y{number}", "path": "/x"},
        ]
    with pytest.raises(StatusError, match="nested more than"):
        patched(*deeper)


def test_patches_apply_in_their_order() -> None:
    assert patched(
        {"op": "add", "path": "/data/b", "value": "1"},
        {"op": "copy", "from": "/data/b", "path": "/data/c"},
        {"op": "remove", "path": "/data/a"},
    ) == {"data": {"b": "1", "c": "1"}}
