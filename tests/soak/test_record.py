"""What a soak calls flat."""

from __future__ import annotations

import pytest

from tests.soak.record import Sample, SoakRecord, find_growth, find_slowdown, fit_slope, last_life

MIB = 2**20


def samples(*, slope: float = 0.0, handles: int = 50, pid: int = 1) -> list[Sample]:
    """A process of 100 MiB that grows by so many MiB a minute, for ten minutes."""
    return [
        Sample(at, pid, int(100 * MIB + slope * MIB * at / 60), handles + at // 60)
        for at in range(0, 600, 5)
    ]


@pytest.mark.parametrize(
    ("life", "words"),
    [
        (samples(), []),
        (samples(slope=0.5), []),
        (samples(slope=3), ["manager: memory grew by 19.8 ± 0.0 MiB in 395 s, allowed are 8.8"]),
    ],
)
def test_a_process_that_grows_is_named(life: list[Sample], words: list[str]) -> None:
    got = find_growth(SoakRecord(samples={"manager": life}), ["manager"])
    assert [text[: len(word)] for text, word in zip(got, words, strict=True)] == words


def test_a_slope_counts_by_what_exceeds_its_error() -> None:
    saw = [
        Sample(each.at, 1, each.memory + (each.at % 300) * MIB // 6, 50)
        for each in samples(slope=1.0)
    ]
    slope = fit_slope(last_life(saw))
    assert slope.value * 395 > 8.8 * MIB > (slope.value - 2 * slope.error) * 395
    assert find_growth(SoakRecord(samples={"manager": saw}), ["manager"]) == []


def test_too_few_samples_show_no_growth() -> None:
    assert find_growth(SoakRecord(samples={"manager": samples(slope=99)[:9]}), ["manager"]) == []


def test_handles_that_are_not_closed_are_named() -> None:
    life = [Sample(each.at, 1, each.memory, int(50 + each.at / 4)) for each in samples()]
    (got,) = find_growth(SoakRecord(samples={"w1": life}), ["w1"])
    assert got.startswith("w1: open handles rose from")


def test_an_earlier_life_and_its_warm_up_do_not_count() -> None:
    earlier = [Sample(at, 1, at * MIB, 9) for at in range(0, 300, 5)]
    warm_up = [Sample(at, 2, (at - 300) * MIB, 9) for at in range(300, 395, 5)]
    flat = [Sample(at, 2, 100 * MIB, 9) for at in range(395, 600, 5)]
    record = SoakRecord(samples={"manager": [*earlier, *warm_up, *flat]})
    assert find_growth(record, ["manager"]) == []


@pytest.mark.parametrize(("last", "is_slower"), [(1.0, False), (6.0, False), (9.0, True)])
def test_jobs_that_wait_longer_and_longer_are_found(last: float, *, is_slower: bool) -> None:
    waits = [(float(n), 1.0 if n < 60 else last) for n in range(90)]
    assert bool(find_slowdown(SoakRecord(waits=waits))) == is_slower
