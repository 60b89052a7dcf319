"""Pages of a summary, and their items."""

from __future__ import annotations

import orjson
import pytest

from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import ObjectMeta, OwnerReference
from multiqueue.api.v1beta2.workload import WorkloadSpec
from multiqueue.visibility.positions import Positions
from multiqueue.visibility.refusals import StatusRefusal
from multiqueue.visibility.summary import (
    PIECE,
    PageRange,
    build_items,
    build_table,
    encode,
    places,
    read_page,
)

OWNER = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u", controller=True)


def positions(*rows: tuple[str, str]) -> Positions:
    result = Positions()
    for name, queue in rows:
        result.add(f"team/{name}", f"team/{queue}")
    return result


def find(key: str) -> Workload | None:
    namespace, _, name = key.partition("/")
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        creation_timestamp="2026-01-01T00:00:00Z",
        owner_references=(OWNER,),
    )
    return Workload(metadata=metadata, spec=WorkloadSpec(queue_name="a", priority=5))


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ({}, PageRange(0, 1000)),
        ({"limit": "0", "offset": ""}, PageRange(0, 1000)),
        ({"limit": "7", "offset": "3"}, PageRange(3, 7)),
        ({"limit": "100001"}, PageRange(0, 100_000)),
        ({"offset": "999999999999"}, PageRange(999_999_999_999, 1000)),
    ],
)
def test_a_page(query: dict[str, str], want: PageRange) -> None:
    assert read_page(query) == want


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "٣", "1e3", " 1", "9" * 40])
@pytest.mark.parametrize("name", ["limit", "offset"])
def test_a_wrong_number_is_named(name: str, value: str) -> None:
    with pytest.raises(StatusRefusal) as caught:
        read_page({name: value})
    assert caught.value.code == 400
    assert str(caught.value).startswith(f'{name}: Invalid value: "{value}"')


ORDER = positions(("w0", "a"), ("w1", "b"), ("w2", "a"), ("w3", "b"), ("w4", "a"))


@pytest.mark.parametrize(
    ("page", "queue", "want"),
    [
        (PageRange(), None, [0, 1, 2, 3, 4]),
        (PageRange(1, 2), None, [1, 2]),
        (PageRange(4, 10), None, [4]),
        (PageRange(9, 10), None, []),
        (PageRange(), "team/a", [0, 2, 4]),
        (PageRange(1, 1), "team/a", [2]),
        (PageRange(), "team/none", []),
    ],
)
def test_the_places_of_a_page(page: PageRange, queue: str | None, want: list[int]) -> None:
    assert list(places(ORDER, page, queue)) == want


def test_the_answer() -> None:
    pieces = encode("v1beta1", ORDER, places(ORDER, PageRange(1, 2), None), find)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}
    common = {"priority": 5, "localQueueName": "a"}
    assert orjson.loads(b"".join(pieces)) == {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": "visibility.kueue.x-k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metadata": {
                    "name": name,
                    "namespace": "team",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "ownerReferences": [owner],
                },
                **common,
                "positionInClusterQueue": place,
                "positionInLocalQueue": in_queue,
            }
            for name, place, in_queue in (("w1", 1, 0), ("w2", 2, 1))
        ],
    }


def test_who_is_gone_meanwhile_is_left_out_and_shifts_nobody() -> None:
    gone = {"team/w0", "team/w2"}
    items = build_items(ORDER, range(5), lambda key: None if key in gone else find(key))
    got = [(item["metadata"]["name"], item["positionInClusterQueue"]) for item in items]
    assert got == [("w1", 1), ("w3", 3), ("w4", 4)]


@pytest.mark.parametrize("gone", [set(), set(range(PIECE)), set(range(PIECE, 2 * PIECE))])
def test_pieces_fit_together(gone: set[int]) -> None:
    """Also where everybody of the first, or of a later piece is gone."""
    many = positions(*((str(number), "a") for number in range(2 * PIECE + 1)))
    left = {f"team/{number}" for number in range(2 * PIECE + 1) if number not in gone}
    pieces = encode(
        "v1beta2", many, range(len(many.keys)), lambda k: find(k) if k in left else None
    )
    items = orjson.loads(b"".join(pieces))["items"]
    assert [f"team/{item['metadata']['name']}" for item in items] == [
        key for key in many.keys if key in left
    ]


def test_a_table() -> None:
    table = build_table(build_items(ORDER, [2], find), "v1")
    assert [column["name"] for column in table["columnDefinitions"]][:3] == [
        "Name",
        "Namespace",
        "Local Queue",
    ]
    [row] = table["rows"]
    assert row["cells"] == ["w2", "team", "a", 5, 2, 1, "2026-01-01T00:00:00Z"]
    assert row["object"]["metadata"]["name"] == "w2"
