"""The tables of `top`, `changes` and `fairness`, and output that is shown live."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from multiqueue.cli.live import HOME, NORMAL_SCREEN, WHOLE_SCREEN
from multiqueue.cli.main import main
from multiqueue.cli.views.fleet import (
    describe_totals,
    draw_bar,
    list_change_rows,
    list_queue_rows,
    list_share_rows,
    list_worker_rows,
    select_changes,
)
from tests.builders.workloads import T0, minutes

GPU = "nvidia.com/gpu"


def make_queue(name: str, used: int, nominal: int, **more: Any) -> dict[str, Any]:
    quota = {"flavor": "a100", "resource": GPU, "used": used, "nominal": nominal, **more}
    cpu = {"flavor": "a100", "resource": "cpu", "used": 1, "nominal": 2}
    status = {
        "kind": "ClusterQueue",
        "active": True,
        "why": "",
        "pending": 1,
        "pendingGpus": 8,
        "quotas": [quota, cpu],
    }
    return {"metadata": {"name": f"clusterqueue:{name}"}, "status": status}


def test_the_fullest_queue_comes_first_and_only_devices_are_shown() -> None:
    rows = list_queue_rows(
        [make_queue("few", 1, 4, lent=2), make_queue("many", 6, 4, borrowed=2, lent=0)]
    )
    assert [row[0] for row in rows] == ["many", "few"]
    assert rows[0][3:7] == ["6/4", "borrowed 2", 1, 8]
    assert rows[1][4] == "lent 2"


@pytest.mark.parametrize(
    ("used", "total", "bar"), [(0, 4, "░░░░"), (1, 2, "██░░"), (9, 4, "████"), (1, 0, "░░░░")]
)
def test_a_bar_shows_the_share_in_use(used: int, total: int, bar: str) -> None:
    assert draw_bar(used, total, cells=4) == bar


def test_a_worker_out_of_reach_shows_no_number_that_is_not_known() -> None:
    status = {
        "connected": False,
        "why": "the worker does not answer",
        "trouble": "",
        "use": {"state": "InUse", "message": None},
        "used": None,
        "gpus": None,
        "running": 1,
        "waiting": 0,
    }
    (row,) = list_worker_rows([{"metadata": {"name": "west"}, "status": status}])
    assert row == ["west", "Disconnected", "", "unknown", 1, 0, "the worker does not answer"]
    status |= {"connected": True, "used": 1, "gpus": 8}
    (row,) = list_worker_rows([{"metadata": {"name": "west"}, "status": status}])
    assert row[1] == "In use"  # the words of `multiqueue clusters`


def test_the_fleet_in_one_line() -> None:
    status = {
        "gpus": 12,
        "used": 10,
        "holding": 5,
        "waiting": 2,
        "waitingGpus": 9,
        "oldest": "2026-01-01T00:00:00Z",
        "nextStart": None,
    }
    assert describe_totals({"status": status}, minutes(5)) == (
        "10 of 12 GPUs in use, 5 jobs with quota, 2 waiting for 9 GPUs, the oldest for 5m"
    )


def test_who_is_starved_comes_first_then_whose_turn_it_is() -> None:
    common = {"cohort": "all", "weight": 1.0, "waiting": 2, "pastUsage": None}
    shares = {
        "second": {**common, "rank": 2, "share": 500, "starvedSeconds": 0},
        "first": {**common, "rank": 1, "share": 0, "starvedSeconds": 0},
        "starved": {**common, "rank": 3, "share": None, "starvedSeconds": 660},
    }
    used = [{"localQueue": "a/b", "usage": 2.25}, {"localQueue": "a/c", "usage": None}]
    shares["second"]["pastUsage"] = used
    assert list_share_rows(
        {"metadata": {"name": name}, "status": status} for name, status in shares.items()
    ) == [
        ["starved", 3, "-", "11m", 2, 1.0, "-", "all"],
        ["first", 1, "0.00", "-", 2, 1.0, "-", "all"],
        ["second", 2, "0.50", "-", 2, 1.0, "2.2", "all"],
    ]


def make_change(at: str, kind: str, action: str = "changed") -> dict[str, Any]:
    fields = [{"path": "spec.weight", "from": None, "to": "2"}]
    return {"status": {"at": at, "kind": kind, "object": "cq", "action": action, "fields": fields}}


def test_changes_are_selected_by_time_and_kind_and_show_both_values() -> None:
    changes = [
        make_change("2026-01-01T00:01:00Z", "ClusterQueue"),
        make_change("2026-01-01T00:02:00Z", "Cohort", "created"),
        make_change("2025-12-31T00:00:00Z", "ClusterQueue"),
    ]
    assert select_changes(changes, T0, ["clusterqueue"]) == changes[:1]
    evicted = make_change("2026-01-01T00:02:00Z", "Workload", "evict")
    evicted["status"]["by"] = "ada"
    assert list_change_rows([*changes[:2], evicted], minutes(3)) == [
        ["2m", "ClusterQueue/cq", "changed", "spec.weight", "none -> 2"],
        ["60s", "Cohort/cq", "created", "", ""],
        ["60s", "Workload/cq", "evict by ada", "", ""],
    ]


LIVE = """
import asyncio, itertools
from multiqueue.cli.live import show_live
from multiqueue.cli.output import print_table

async def show(count=itertools.count()):
    number = next(count)
    print_table(["NUMBER"], [[number]])
    if number == 2:
        raise SystemExit

asyncio.run(show_live(show, 0.01))
"""


def test_on_a_terminal_it_is_drawn_over_and_the_last_state_stays() -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", LIVE], stdout=follower) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        assert process.wait() == 0
    os.close(leader)
    text = shown.decode()
    assert text.startswith(WHOLE_SCREEN + HOME)
    assert text.count(HOME) == 2
    _, _, after = text.partition(NORMAL_SCREEN)
    assert after.split() == ["NUMBER", "1"]


def test_elsewhere_it_is_printed_when_it_changed() -> None:
    done = subprocess.run([sys.executable, "-c", LIVE], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["NUMBER", "0", "NUMBER", "1"]


def test_a_live_table_is_not_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "--watch", "-o", "json"]) == 2
    assert "watch standings with kubectl" in capsys.readouterr().err
