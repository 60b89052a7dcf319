"""``multiqueue jobkind``: what a JobKind would do, and the roles for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from multiqueue.cli.main import cli
from tests.builders.job_kinds import make_gadget, make_job_kind


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["jobkind", *arguments])


def write(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_it_shows_pods_state_start_stop_and_copy(tmp_path: Path) -> None:
    source = write(tmp_path / "kind.yaml", make_job_kind())
    gadget = {**make_gadget(size=3), "status": {"phase": "Running"}}
    result = run("test", source, write(tmp_path / "gadget.yaml", gadget), "-o", "json")
    assert result.return_value is None
    (shown,) = yaml.safe_load(result.output)
    assert [(each["name"], each["count"]) for each in shown["podSets"]] == [("main", 3)]
    assert (shown["state"]["active"], shown["state"]["finished"]) == (True, False)
    assert shown["starting"]["spec"]["pause"] is None
    assert shown["stopping"]["spec"]["pause"] is True
    assert shown["copyForWorkers"]["spec"]["pause"] is True
    assert "problems" not in shown


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        (make_gadget(size=-1), 'podSets: pod set "main": -1 pods are requested'),
        (
            {"apiVersion": "v1", "kind": "Pod"},
            "is a v1 Pod; the JobKind is for gadgets",
        ),
    ],
)
def test_it_says_which_problems_an_object_has(
    tmp_path: Path, obj: dict[str, Any], problem: str
) -> None:
    source = write(tmp_path / "kind.yaml", make_job_kind())
    result = run("test", source, write(tmp_path / "object.yaml", obj))
    (shown,) = yaml.safe_load(result.output)
    assert shown["problems"][0].startswith(problem)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([make_job_kind(podSelector="self.")], "the JobKind is not accepted (BadExpression): spec"),
        ([make_job_kind(), make_job_kind("b")], "has 2 JobKinds; give a file with one"),
        ([make_gadget()], "has a Gadget; a JobKind is expected"),
        ([make_job_kind(podSets="all")], "Expected `array`, got `str`"),
    ],
)
def test_it_refuses_what_is_no_job_kind(
    tmp_path: Path, source: list[dict[str, Any]], message: str
) -> None:
    path = write(tmp_path / "kind.yaml", *source)
    result = run("test", path, write(tmp_path / "gadget.yaml", make_gadget()))
    assert message in str(result.exception)


def test_it_prints_the_roles(tmp_path: Path) -> None:
    result = run("role", write(tmp_path / "kind.yaml", make_job_kind()))
    manager, worker = yaml.safe_load_all(result.output)
    assert manager["metadata"]["labels"] == {"rbac.kueue.x-k8s.io/job-kind": "true"}
    assert worker["metadata"]["labels"] == {"rbac.kueue.x-k8s.io/remote-job-kind": "true"}
    assert worker["rules"][0]["resources"] == ["gadgets"]
    assert "create" in worker["rules"][0]["verbs"]
    assert "create" not in manager["rules"][0]["verbs"]
