from hypothesis import given
from hypothesis import strategies as st

from multiqueue.lib.heap import KeyedHeap


def heap_of(**ranks: int) -> KeyedHeap[str]:
    heap: KeyedHeap[str] = KeyedHeap()
    for key, rank in ranks.items():
        heap.push(key, rank)
    return heap


def drain(heap: KeyedHeap[str]) -> list[str]:
    return [key for _ in range(len(heap)) if (key := heap.pop()) is not None]


def test_keys_come_in_the_order_of_their_ranks() -> None:
    assert drain(heap_of(b=2, c=3, a=1)) == ["a", "b", "c"]


def test_a_key_that_is_pushed_again_moves() -> None:
    heap = heap_of(a=1, b=2)
    heap.push("a", 3)

    assert heap.rank("a") == 3
    assert drain(heap) == ["b", "a"]


def test_a_key_that_is_pushed_with_the_same_rank_stays_once() -> None:
    heap = heap_of(a=1)
    heap.push("a", 1)

    assert drain(heap) == ["a"]
    assert heap.pop() is None


def test_a_removed_key_does_not_come_back() -> None:
    heap = heap_of(a=1, b=2)

    assert heap.remove("a")
    assert not heap.remove("a")
    assert "a" not in heap
    assert list(heap) == heap.ordered() == drain(heap) == ["b"]


def test_keys_of_equal_rank_need_no_order_of_their_own() -> None:
    heap: KeyedHeap[object] = KeyedHeap()
    first, second = object(), object()
    heap.push(first, 1)
    heap.remove(first)
    heap.push(second, 1)

    assert heap.pop() is second


def test_absorbing_takes_everything_and_leaves_nothing() -> None:
    small, large = heap_of(b=2), heap_of(a=1, c=3)
    small.absorb(large)

    assert len(large) == 0
    assert drain(small) == ["a", "b", "c"]


def test_absorbing_an_empty_heap_changes_nothing() -> None:
    heap = heap_of(a=1)
    heap.absorb(KeyedHeap())

    assert drain(heap) == ["a"]


def test_stale_entries_do_not_pile_up() -> None:
    heap = heap_of(a=0)
    for rank in range(1, 1000):
        heap.push("a", rank)

    assert heap.stale_count < 99
    assert drain(heap) == ["a"]


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["push", "remove", "pop"]), st.integers(0, 5), st.integers(0, 9))
)


@given(OPERATIONS)
def test_behaves_like_a_sorted_dictionary(operations: list[tuple[str, int, int]]) -> None:
    heap: KeyedHeap[int] = KeyedHeap()
    model: dict[int, tuple[int, int]] = {}
    for operation, key, rank in operations:
        if operation == "push":
            heap.push(key, (rank, key))
            model[key] = (rank, key)
        elif operation == "remove":
            assert heap.remove(key) == (model.pop(key, None) is not None)
        else:
            want = min(model, key=model.__getitem__) if model else None
            assert heap.pop() == want
            model.pop(want, None) if want is not None else None
        assert heap.peek() == (min(model, key=model.__getitem__) if model else None)
        assert len(heap) == len(model)
