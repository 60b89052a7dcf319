"""The words of the page: starts as the commands say them. Needs Node, which nothing else does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import multiqueue.dashboard
from multiqueue.api.v1beta2 import format_time
from multiqueue.views.start import SENTENCES, StartCaveat, say_start, with_promise

NODE = shutil.which("node")
APP = Path(multiqueue.dashboard.__file__).parent / "assets/app"
NOW = datetime(2026, 1, 5, 12, 0, 20, tzinfo=UTC)
MINUTES = (
    (0, 0, 3),
    (-2, -1, 3),
    (0.1, 0.3, 0.8),
    (0.1, 0.3, 5),
    (50, 80, 110),
    (-1, 80, 110),
    (170, 187, 220),
    (600, 700, 780),
    (3000, 3030, 3100),
    (30, 30, 30),
    (-60, -30, -0.5),
    (-60, -30, -0.6),
    (-60, -30, -10),
)


def tell(minutes: tuple[float, float, float]) -> dict[str, Any]:
    times = (format_time(NOW + timedelta(minutes=each)) for each in minutes)
    return dict(zip(("earliest", "at", "latest"), times, strict=True), ahead=0)


@pytest.mark.skipif(NODE is None, reason="no Node on this machine")
def test_starts_are_said_as_the_commands_say_them() -> None:
    told = [*map(tell, MINUTES), with_promise(tell((50, 80, 110)), NOW + timedelta(hours=1))]
    said = run_in_node("startWords", told, f"{NOW.timestamp() * 1000:.0f}")
    assert said == [say_start(each, NOW) for each in told]


@pytest.mark.skipif(NODE is None, reason="no Node on this machine")
def test_an_estimate_comes_with_what_it_rests_on() -> None:
    caveats = [{"code": code, "message": SENTENCES[code]} for code in StartCaveat]
    told = [{"caveats": caveats[:2]}, {"caveats": []}, {"reason": "nobody knows"}]
    both = "; ".join(caveat["message"] for caveat in caveats[:2])
    assert run_in_node("startNotes", told) == [both, "", "nobody knows"]


@pytest.mark.skipif(NODE is None, reason="no Node on this machine")
def test_what_a_queue_borrows_and_lends_is_said_by_flavor_if_that_is_short() -> None:
    def quota(flavor: str, borrowed: int, lent: int) -> dict[str, Any]:
        amounts = {"borrowed": borrowed, "lent": lent}
        return {"flavor": flavor, "resource": "nvidia.com/gpu", **amounts}

    gpus = {"borrowed": 5, "lent": 1}
    told = [
        {"gpus": gpus, "quotas": [quota("a100", 5, 0), quota("h100", 0, 1)]},
        {"gpus": gpus, "quotas": [quota("a100-in-another-zone", 5, 0), quota("h100", 0, 1)]},
        {"gpus": {"borrowed": 2, "lent": 0}, "quotas": [quota("a100", 2, 0)]},
    ]
    said = run_in_node("sayMoved", told, module="draw/layout.mjs")
    assert said == [
        ", borrows 5 a100, lends 1 h100",
        ", borrows 5, lends 1",
        ", borrows 2",
    ]


def run_in_node(
    function: str, values: Sequence[object], *rest: str, module: str = "format.mjs"
) -> Any:
    """Call a function of the page with each value."""
    arguments = ", ".join(("value", *rest))
    script = (
        f"import {{ {function} }} from {json.dumps((APP / module).as_uri())};"
        f"console.log(JSON.stringify({json.dumps(values)}"
        f".map((value) => {function}({arguments}))))"
    )
    command = [str(NODE), "--input-type=module", "-e", script]
    answer = subprocess.check_output(command, text=True, env={**os.environ, "TZ": "UTC"})
    return json.loads(answer)
