from __future__ import annotations

from pathlib import Path

import pytest

from multiqueue.simulation.fleet import make_fleet
from multiqueue.simulation.traces.csv_loader import TraceError, load_csv
from multiqueue.simulation.traces.make import TraceRequest, make_trace
from multiqueue.simulation.traces.trace import Trace

HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
)
ACME = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,"
    "queue,gpu_time\n"
)


def load(tmp_path: Path, text: str, **options: int) -> Trace:
    path = tmp_path / "cluster_log.csv"
    path.write_text(text, encoding="utf-8")
    return load_csv(path, **{"skip": 0, "count": 100, "teams": 4, "largest": 64, **options})


def helios(
    number: int, *, vc: str = "vc1", gpus: str = "8", at: str = "", took: str = "3600"
) -> str:
    at = at or f"2020-04-01 00:{number:02}:00"
    return f"{number},u1,{vc},{gpus},32,1,COMPLETED,{at},{at},{at},{took},0\n"


def test_helios_is_read(tmp_path: Path) -> None:
    trace = load(tmp_path, HELIOS + helios(2, vc="vcB", gpus="1", took="20") + helios(1))
    first, second = trace.jobs
    assert (first.name, first.team, first.gpus, first.kind) == ("job-1", "vc1", 8, "training")
    assert (first.submit, first.duration) == (0.0, 3600.0)
    assert (second.team, second.kind, second.submit) == ("vcB", "debug", 60.0)


def test_acme_is_read(tmp_path: Path) -> None:
    lines = (
        "7,ua,16,64,0,Pretrain,COMPLETED,2023-08-01 10:00:00+00:00,,,500.0,3.0,32000\n"
        "8,ub,1,1,0,Evaluation,FAILED,2023-08-01 10:00:30+00:00,,,90,1.0,90\n"
    )
    trace = load(tmp_path, ACME + lines)
    assert [(job.team, job.kind, job.gpus) for job in trace.jobs] == [
        ("ua", "pretraining", 64),
        ("ub", "evaluation", 1),
    ]
    assert trace.span == 30.0


def test_what_uses_no_gpu_or_never_ran_is_left_out(tmp_path: Path) -> None:
    trace = load(tmp_path, HELIOS + helios(1, gpus="0") + helios(2, took="0") + helios(3))
    assert [job.name for job in trace.jobs] == ["job-3"]


def test_what_no_cluster_holds_is_left_out_and_told(tmp_path: Path) -> None:
    trace = load(tmp_path, HELIOS + helios(1, gpus="128") + helios(2))
    assert [job.name for job in trace.jobs] == ["job-2"]
    assert "1 gangs of more than 64 GPUs left out" in " ".join(trace.notes)


def test_small_teams_are_taken_together(tmp_path: Path) -> None:
    rows = [helios(n, vc=f"vc{n}", gpus=str(n)) for n in range(1, 6)]
    trace = load(tmp_path, HELIOS + "".join(rows), teams=3)
    assert [job.team for job in trace.jobs] == ["others", "others", "others", "vc4", "vc5"]


def test_each_seed_is_another_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HELIOS + "".join(helios(n) for n in range(20)), encoding="utf-8")
    wanted = TraceRequest(source=str(path), count=10, load=0.5, teams=2)
    trace = make_trace(wanted, make_fleet(2), 2)
    assert [job.name for job in trace.jobs] == [f"job-{n}" for n in range(10, 20)]
    assert any("times as fast as recorded" in note for note in trace.notes)
    with pytest.raises(TraceError, match=r"no job .* after the first 20"):
        make_trace(wanted, make_fleet(2), 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "has no column job_id, user, gpu_num, submit_time, duration; it has a, b"),
        ("", "it has none"),
        (HELIOS, "has no job with GPUs"),
        (HELIOS + helios(1) + helios(2, gpus="many"), 'line 3, column "gpu_num": "many" is no num'),
        (HELIOS + helios(1, took="1h"), 'line 2, column "duration": "1h" is no number'),
        (
            HELIOS + helios(1, at="yesterday"),
            'line 2, column "submit_time": "yesterday" is no time',
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_line_and_column(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(TraceError) as caught:
        load(tmp_path, text)
    assert words in str(caught.value)
    assert "cluster_log.csv" in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        load_csv(tmp_path / "no.csv", skip=0, count=1, teams=1, largest=8)
