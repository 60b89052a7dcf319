"""How recorded cases of job kinds are chosen, and which of them must pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multiqueue.api.job_kinds import KNOWN_FRAMEWORKS
from tests.conformance import jobs_driving
from tests.conformance.jobs_driving import JOBS, OPEN, Cases
from tests.controlplane import kinds

GROUPS = ["jobs", "readiness"]


@pytest.fixture
def cases() -> Cases:
    """Three of a kind, and one of another."""
    names = {"jobset-plain-1", "jobset-groups-1", "jobset-zero-1", "job-plain-1"}
    return jobs_driving.choose("jobs", "jobset,job", "").only(names)


def record(work: Path, cases: Cases) -> None:
    """Write what a drive leaves behind if the manager does all as it was recorded."""
    for file, chosen in cases.by_file.items():
        recorded = json.loads((JOBS / "expected" / f"{file}.json").read_text())
        for folder in ("expected", "actual"):
            path = work / folder / f"{file}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({case["name"]: recorded[case["name"]] for case in chosen}))


def differ(work: Path, file: str, case: str) -> None:
    """Change one value of one step in what was recorded."""
    path = work / "actual" / f"{file}.json"
    records = json.loads(path.read_text())
    (workload,) = records[case][0]["workloads"].values()
    workload["priority"] = 77
    path.write_text(json.dumps(records))


@pytest.mark.parametrize("group", GROUPS)
def test_each_case_has_a_recording_of_all_its_steps(group: str) -> None:
    chosen = jobs_driving.choose(group, "", "")
    for file, cases in chosen.by_file.items():
        recorded = json.loads((chosen.folder / "expected" / f"{file}.json").read_text())
        steps = {case["name"]: len(case["steps"]) for case in cases}
        assert {name: len(record) for name, record in recorded.items()} == steps


def test_a_kind_and_a_part_of_a_name_choose_cases() -> None:
    chosen = jobs_driving.choose("jobs", "jobset,rayjob", "plain")
    assert chosen.names == {"jobset-plain-1", "rayjob-plain-1"}
    assert jobs_driving.choose("readiness", "jobset", "").names == set()


def test_an_unknown_kind_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(
        ValueError, match=r'KIND: "jobsets" has no recorded cases; choose of .*jobset'
    ):
        jobs_driving.choose("jobs", "jobsets", "")


def test_a_name_of_no_case_is_refused() -> None:
    with pytest.raises(ValueError, match='ONLY: no case of these kinds has "plane" in its name'):
        jobs_driving.choose("readiness", "", "plane")


def test_definitions_are_found_at_any_depth() -> None:
    chosen = jobs_driving.choose("jobs", "appwrapper", "")
    names = {"appwrappers.workload.codeflare.dev", "pytorchjobs.kubeflow.org"}
    assert kinds.find_crds(list(chosen.by_file.values())) == names


def test_the_definitions_are_those_of_all_frameworks() -> None:
    assert set(kinds.find_frameworks(kinds.CRDS)) == KNOWN_FRAMEWORKS


def test_a_case_fails_if_one_value_differs(tmp_path: Path, cases: Cases) -> None:
    record(tmp_path, cases)
    assert jobs_driving.find_failing(tmp_path) == set()
    differ(tmp_path, "jobset", "jobset-zero-1")
    assert jobs_driving.find_failing(tmp_path) == {"jobset-zero-1"}


def test_a_case_that_was_not_played_fails(tmp_path: Path, cases: Cases) -> None:
    record(tmp_path, cases)
    (tmp_path / "actual" / "job.json").unlink()
    assert jobs_driving.find_failing(tmp_path) == {"job-plain-1"}


def test_only_cases_that_are_not_open_must_pass(tmp_path: Path, cases: Cases) -> None:
    may_fail = tmp_path / "open.json"
    may_fail.write_text('{"job": "all", "jobset": ["jobset-zero-1"]}')
    assert jobs_driving.find_regressions(cases.names, cases, may_fail) == {
        "jobset-plain-1",
        "jobset-groups-1",
    }


def test_accepting_keeps_what_was_not_played(tmp_path: Path, cases: Cases) -> None:
    may_fail = tmp_path / "open.json"
    may_fail.write_text('{"job": "all", "jobset": ["jobset-zero-1", "jobset-bad-1"], "pod": "all"}')
    jobs_driving.accept({"jobset-groups-1"}, cases, may_fail)
    after = json.loads(may_fail.read_text())
    assert after["jobset"] == ["jobset-bad-1", "jobset-groups-1"]
    assert after["pod"] == "all"
    every = jobs_driving.choose("jobs", "job", "")
    assert set(after["job"]) == every.names - every.timing - {"job-plain-1"}


@pytest.mark.parametrize("group", GROUPS)
def test_a_kind_of_which_all_pass_is_no_longer_open(tmp_path: Path, group: str) -> None:
    may_fail = tmp_path / "open.json"
    may_fail.write_text(OPEN.read_text())
    jobs_driving.accept((), jobs_driving.choose(group, "", ""), may_fail)
    left = {
        kind for kind in json.loads(OPEN.read_text()) if (kind == "readiness") == (group == "jobs")
    }
    assert json.loads(may_fail.read_text()).keys() == left


def test_a_kind_of_which_all_fail_stays_open(tmp_path: Path) -> None:
    may_fail = tmp_path / "open.json"
    may_fail.write_text("{}")
    chosen = jobs_driving.choose("jobs", "podgroup", "")
    assert chosen.names > chosen.names - chosen.timing
    jobs_driving.accept(chosen.names - chosen.timing, chosen, may_fail)
    assert json.loads(may_fail.read_text()) == {"podgroup": "all"}


def test_open_cases_exist() -> None:
    recorded = {
        file: {case["name"] for case in cases}
        for group in GROUPS
        for file, cases in jobs_driving.choose(group, "", "").by_file.items()
    }
    for kind, names in json.loads(OPEN.read_text()).items():
        assert names == "all" or recorded[kind] >= set(names)
