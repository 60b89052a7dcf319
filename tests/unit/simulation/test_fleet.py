from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from multiqueue.lib.shares import share_out
from multiqueue.simulation.fleet import (
    Cluster,
    Outage,
    Preempting,
    SimulatedFleet,
    find_span,
    make_fleet,
)
from multiqueue.simulation.fleet_file import FleetFileError, load_fleet, parse_fleet
from multiqueue.simulation.traces.make import with_speeds
from tests.unit.simulation.worlds import make_trace_job

WHOLE = """
clusters:
- name: west
  gpus: {a100: 64, h100: 16}
  prices: {a100: 1.8, h100: 3.5}
  outage: {after: 24h, for: 90m}
- name: east
  gpus: {h100: 32}
speeds:
  training: {h100: 3}
preemption: reclaim
fairSharing: true
managerQuotaPercent: 150
watts: {a100: 400}
"""


def test_clusters_are_of_a100_and_h100_in_turn() -> None:
    fleet = make_fleet(3)
    assert [(c.name, dict(c.gpus)) for c in fleet.clusters] == [
        ("a100-1", {"a100": 64}),
        ("h100-1", {"h100": 48}),
        ("a100-2", {"a100": 48}),
    ]
    assert (fleet.total, fleet.largest, fleet.count("a100")) == (160, 64, 112)


def test_a_file_says_it_all() -> None:
    fleet = parse_fleet(yaml.safe_load(WHOLE))
    west, east = fleet.clusters
    assert west == Cluster(
        name="west",
        gpus={"a100": 64, "h100": 16},
        prices={"a100": 1800, "h100": 3500},
        outage=Outage(86_400, 5_400),
    )
    assert fleet.fair_sharing
    assert (east.name, east.total) == ("east", 32)
    assert (fleet.preempting, fleet.quota_percent) == (Preempting.BORROWERS, 150)
    assert fleet.watts == {"a100": 400.0}
    (job,) = with_speeds([make_trace_job("a", kind="training")], fleet)
    assert (job.speed_on("h100"), job.speed_on("a100")) == (3.0, 1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "the document: must be a mapping"),
        ("clusters: []", "clusters: must list at least one"),
        ("cluster: []", "unknown cluster; known are clusters"),
        ("clusters: [{gpus: {a100: 1}}]", r"clusters\[0\].name: must be a name"),
        ("clusters: [{name: a, gpus: {a100: 0}}]", r"clusters\[0\].gpus.a100: 0 must be a number"),
        ("clusters: [{name: a, gpus: {}}]", r"clusters\[0\].gpus: must name GPUs"),
        (
            "clusters: [{name: a, gpus: {x: 1}, prices: {x: cheap}}]",
            r"clusters\[0\].prices.x: 'cheap' must be a number above 0",
        ),
        (
            "clusters: [{name: a, gpus: {x: 1}}, {name: a, gpus: {x: 1}}]",
            'clusters: "a" is there twice',
        ),
        (
            "clusters: [{name: a, gpus: {x: 1}, outage: {after: 24h, for: 0s}}]",
            r"clusters\[0\].outage: an outage cannot begin before the trace, and has",
        ),
        (
            "clusters: [{name: a, gpus: {x: 1}, outage: {after: soon}}]",
            r'clusters\[0\].outage: "soon" is not a duration',
        ),
        (
            "clusters: [{name: a, gpus: {x: 1}}]\nfairSharing: perhaps",
            "fairSharing: 'perhaps' must be true or false",
        ),
        ("clusters: [{name: a, gpus: {x: 1}}]\npreemption: yes", "must be one of none, priority"),
        ("clusters: [{name: a, gpus: {x: 1}}]\nspeeds: {x: {y: 1}}", "speeds: unknown x; known"),
        ("clusters: [", "is no YAML"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_field(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FleetFileError, match=words) as caught:
        load_fleet(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FleetFileError, match="cannot be read"):
        load_fleet(tmp_path / "no.yaml")


def test_quota_is_shared_out_to_the_last_gpu() -> None:
    assert share_out(10, {"a": 1, "b": 1, "c": 1}) == {"a": 4, "b": 3, "c": 3}
    assert share_out(3, {"a": 100, "b": 1}) == {"a": 3, "b": 0}


def test_a_load_of_one_keeps_all_gpus_busy() -> None:
    fleet = SimulatedFleet(clusters=(Cluster(name="a", gpus={"a100": 4, "h100": 4}),))
    (job,) = with_speeds([make_trace_job("a", kind="training", gpus=4, duration=1450.0)], fleet)
    # Half on A100, half on H100 at 1.9 times the speed: 1.45 on average.
    assert find_span([job], fleet, 1.0) == pytest.approx(4 * 1000 / 8)
