"""Protobuf bodies: the tables, the decoder, and what it says to bytes that are none."""

import contextlib
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.embedded.server.protobuf import Malformed, UnknownMessageKind, decode_envelope
from multiqueue.embedded.server.protobuf.messages import (
    INLINE,
    Field,
    decode_message,
    fields_of,
    type_of,
)
from multiqueue.embedded.server.schema.types import DATA
from tests.unit.embedded.server.kind_builders import BUILTIN
from tests.unit.embedded.server.protobuf_encoder import (
    MAGIC,
    chunk,
    envelope,
    message,
    text,
    varint,
)

OPAQUE_GROUPS = {"apiextensions.k8s.io"}
"""Schemas are recursive in their JSON only; kubectl sends definitions as JSON."""
ROOTS = sorted(
    (kind.api_version("v1"), kind.kind)
    for kind in BUILTIN
    if kind.group not in OPAQUE_GROUPS and kind.builtin
)
WORDS = st.sampled_from(["a", "b-c", "ü", "x" * 200])


def flat_fields(type_name: str) -> dict[str, Field]:
    """The fields of a type as they stand in JSON."""
    found = {}
    for field in fields_of(type_name).values():
        found |= flat_fields(field.type) if field.name == INLINE else {field.name: field}
    return found


def described_fields() -> list[tuple[str, str, str]]:
    """(type, field, expression) of the schemas that the server has of the same types."""
    rows = []
    for path in sorted(DATA.glob("*.json")):
        document = orjson.loads(path.read_bytes())
        for name, row in document.get("types", {}).items():
            rows += [(f"{path.stem}.{name}", *item) for item in row["fields"].items()]
    return rows


NOT_IN_MESSAGES = {("meta.ListMeta", None), ("meta.ShardInfo", None)}
OTHER_FORM = {
    ("meta.ManagedFieldsEntry", "fieldsV1"),
    ("authentication.UserInfo", "extra"),
    ("authorization.SubjectAccessReviewSpec", "extra"),
}


def test_numbers_and_schemas_know_the_same_fields_of_the_same_types() -> None:
    wrong = []
    for type_name, field, expression in described_fields():
        if (type_name, None) in NOT_IN_MESSAGES or type_name.startswith("apiextensions."):
            continue
        got = flat_fields(type_name).get(field)
        if got is None and field in {"apiVersion", "kind"}:
            continue  # they stand in the envelope
        if got is None or (
            f"{got.shape}{got.type}" != expression and (type_name, field) not in OTHER_FORM
        ):
            wrong.append((type_name, field, expression, got))
    assert wrong == []


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": WORDS,
    "boolean": st.just(value=True),
    "int32": st.integers(-(2**31), 2**31 - 1).filter(bool),
    "int64": st.integers(-(2**63), 2**63 - 1).filter(bool),
    "bytes": st.sampled_from(["", "AA==", "/+8="]),
    "quantity": st.sampled_from(["0", "1500m", "1Gi"]),
    "intOrString": st.sampled_from([0, -1, 80, "", "50%"]),
    "time": st.sampled_from(["2026-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]),
    "microTime": st.just("2026-01-01T00:00:00.123456Z"),
    "raw": st.sampled_from([{"a": [1, None]}, [], "x"]),
    "items:string": st.lists(WORDS, max_size=2),
}


@st.composite
def objects(draw: st.DrawFn, type_name: str, depth: int = 0) -> dict[str, Any]:
    """Some fields of a message."""
    fields = flat_fields(type_name)
    chance = 3 if depth < 3 else 6
    obj: dict[str, Any] = {}
    for name, field in fields.items():
        if depth > 6 or draw(st.integers(0, chance)):
            continue
        inner = VALUES[field.type] if field.type in VALUES else objects(field.type, depth + 1)
        if field.shape == "[]":
            obj[name] = draw(st.lists(inner, min_size=1, max_size=2))
        elif field.shape == "{}":
            obj[name] = draw(st.dictionaries(WORDS, inner, min_size=1, max_size=2))
        elif field.optional:
            zero = {"string": "", "boolean": False}.get(field.type, 0)
            obj[name] = draw(st.just(zero) | inner)
        else:
            obj[name] = draw(inner)
    return obj


@pytest.mark.parametrize(("api_version", "kind"), ROOTS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_what_was_encoded_is_decoded(api_version: str, kind: str, data: st.DataObject) -> None:
    fields = data.draw(objects(type_of(api_version, kind)))
    obj = {**fields, "apiVersion": api_version, "kind": kind}
    got = decode_envelope(envelope(obj))
    assert without_empty(got) == without_empty(obj)


def without_empty(value: Any) -> Any:
    """Messages whose inline part says nothing are there all the same, as empty objects."""
    if isinstance(value, dict):
        inner = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each != {}}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


def test_a_deployment_as_kubectl_sends_it() -> None:
    """Bytes of kubectl 1.32: create deployment a --image=b --replicas=0."""
    obj = decode_envelope(bytes.fromhex(DEPLOYMENT))
    assert obj == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "a"}},
            "strategy": {},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "b", "image": "b", "resources": {}}]},
            },
        },
        "status": {},
    }


@settings(max_examples=300, deadline=None)
@given(cut=st.integers(4, 400), flips=st.lists(st.tuples(st.integers(4, 400), st.integers(1, 255))))
def test_spoiled_bytes_are_decoded_or_refused(cut: int, flips: list[tuple[int, int]]) -> None:
    body = bytearray(bytes.fromhex(DEPLOYMENT))
    for position, bits in flips:
        body[position % len(body)] ^= bits
    with contextlib.suppress(Malformed, UnknownMessageKind):
        orjson.dumps(decode_envelope(bytes(body[:cut])))


def name_only(name: bytes) -> bytes:
    return MAGIC + chunk(1, text(1, "v1") + text(2, "ConfigMap")) + chunk(2, chunk(1, name))


@pytest.mark.parametrize(
    ("body", "want"),
    {
        "json": (b"{}", "expected prefix [107 56 115 0]"),
        "nothing but magic": (MAGIC, "Object 'Kind' is missing"),
        "no version": (MAGIC + chunk(1, text(2, "Pod")), "Object 'apiVersion' is missing"),
        "end in a length": (MAGIC + b"\x0a", "unexpected EOF in a number"),
        "end in a value": (MAGIC + b"\x0a\x05v1", "unexpected EOF in field 1"),
        "endless number": (MAGIC + b"\xff" * 11, "longer than 64 bits"),
        "field number 0": (MAGIC + b"\x02\x00", "field number 0"),
        "group": (MAGIC + b"\x0b", "unknown wire type 3"),
        "text as number": (name_only(varint(1 << 3) + b"\x01"), "metadata: name: wrong wireType"),
        "bad UTF-8": (name_only(chunk(1, b"\xff")), "metadata: name: not UTF-8"),
        "bad kind": (MAGIC + chunk(1, text(1, "v1") + chunk(2, b"\xff")), "the kind is not UTF-8"),
    }.values(),
)
def test_malformed_bytes_say_what_is_wrong(body: bytes, want: str) -> None:
    with pytest.raises(Malformed, match=want.replace("[", r"\[")):
        decode_envelope(body)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Gizmo"), ("v2", "Pod"), ("kueue.x-k8s.io/v1beta2", "Workload"), ("x", "Pod")],
)
def test_kinds_without_a_table_are_named(api_version: str, kind: str) -> None:
    body = MAGIC + chunk(1, text(1, api_version) + text(2, kind))
    with pytest.raises(UnknownMessageKind, match=f'"{kind}" of "{api_version}"'):
        decode_envelope(body)


def test_delete_options_belong_to_every_group() -> None:
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": ["All"]}
    body = envelope(options, kind="DeleteOptions", api_version="policy/v1")
    assert decode_envelope(body) == {
        "apiVersion": "policy/v1",
        "kind": "DeleteOptions",
        **options,
    }


def test_a_packed_list_and_an_unknown_number() -> None:
    packed = chunk(4, varint(5) + varint(-1)) + chunk(99, b"later") + varint(98 << 3) + b"\x01"
    assert decode_message("v1", "Pod", chunk(2, chunk(14, packed))) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"securityContext": {"supplementalGroups": [5, -1]}},
    }


def test_odd_values_of_special_types_are_refused() -> None:
    late = message("meta.ObjectMeta", {}) + chunk(8, varint(8) + varint(2**62))
    with pytest.raises(Malformed, match="creationTimestamp: the time is out of range"):
        decode_message("v1", "ConfigMap", chunk(1, late))
    port = chunk(1, chunk(4, varint(8) + varint(7)))
    with pytest.raises(Malformed, match="neither a number nor a text"):
        decode_message("v1", "Service", chunk(2, port))
    with pytest.raises(Malformed, match="not JSON"):
        decode_message("v1", "ConfigMap", chunk(1, chunk(17, chunk(7, chunk(1, b"{")))))


DEPLOYMENT = (
    "6b3873000a150a07617070732f7631120a4465706c6f796d656e74129b010a1b0a016112001a0022002a0032"
    "00380042005a080a03617070120161126e0800120a0a080a036170701201611a560a1a0a0012001a0022002a"
    "003200380042005a080a036170701201611238121a0a01621201622a0042006a007200800100880100900100"
    "a201001a00320042004a0052005800600068008201008a01009a0100c2010022020a00280038001a0c080010"
    "0018002000280038001a002200"
)
