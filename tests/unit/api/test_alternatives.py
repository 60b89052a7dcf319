"""How many pods do on which hardware, as jobs say it."""

import pytest

from multiqueue.api.alternatives import name_hardware, parse_alternatives, resolve_alternatives


def test_numbers_of_pods_are_read_by_hardware() -> None:
    assert parse_alternatives(" h100 = 4, b200=2 ") == {"": {"h100": 4, "b200": 2}}
    assert parse_alternatives("workers:h100=4,ps:h100=1,workers:NVIDIA-H200-SXM.5=3") == {
        "workers": {"h100": 4, "NVIDIA-H200-SXM.5": 3},
        "ps": {"h100": 1},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("h100", '"h100" is not HARDWARE=PODS'),
        ("=4", '"=4" is not HARDWARE=PODS'),
        (":h100=4", '":h100=4" is not HARDWARE=PODS'),
        ("h 100=4", '"h 100=4" is not HARDWARE=PODS'),
        ("h100=4,", '"" is not HARDWARE=PODS'),
        ("h100=0", '"0" is no number of pods'),
        ("h100=four", '"four" is no number of pods'),
        ("h100=-4", '"-4" is no number of pods'),
        ("h100=4,h100=2", '"h100" is named twice'),
        (",".join(f"gpu{n}=1" for n in range(9)), "more than 8"),
        (",".join(f"pods{n}:h100=1" for n in range(1000)), "characters are more than 4096"),
        ("h" * 5000, "^5000 characters are more than 4096; leave some out$"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_alternatives(text)


@pytest.mark.parametrize(
    ("text", "counts", "want"),
    [
        ("h100=4", {"main": 8}, {"main": {"h100": 4}}),
        ("main:h100=8", {"main": 8}, {"main": {"h100": 8}}),
        ("workers:h100=4", {"driver": 1, "workers": 8}, {"workers": {"h100": 4}}),
    ],
)
def test_pods_are_found_by_name(text: str, counts: dict, want: dict) -> None:
    assert resolve_alternatives(text, counts) == want


@pytest.mark.parametrize(
    ("text", "counts", "why"),
    [
        ("h100=4", {"driver": 1, "workers": 8}, "which pods"),
        ("worker:h100=4", {"workers": 8}, 'no pods "worker", only workers'),
        ("h100=9", {"main": 8}, "9 pods on h100 are more than the 8 of the job"),
        ("h100=4,main:b200=2", {"main": 8}, "named in one place"),
    ],
)
def test_what_does_not_go_with_the_job_says_why(text: str, counts: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        resolve_alternatives(text, counts)


def test_hardware_goes_by_flavor_and_then_by_node_label() -> None:
    labels = {"accelerator": "h100", "zone": "b"}
    assert name_hardware("h100-spot", labels, {"h100", "b200"}) == "h100"
    assert name_hardware("b200", labels, {"h100", "b200"}) == "b200"
    assert name_hardware("h100-spot", labels, {"b200"}) == ""
