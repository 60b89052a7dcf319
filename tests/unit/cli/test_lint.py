"""``multiqueue lint`` over files: what is read, what is printed, exit codes."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path

import pytest

from multiqueue.cli.main import main

QUEUE = """\
# a queue
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: a}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: f
      resources: [{name: cpu, nominalQuota: 1, borrowingLimit: 1}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
"""
BROKEN_QUEUE = QUEUE.replace("nominalQuota: 1", "nominalQuota: -1")
CLUSTER = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: w}
spec: {clusterSource: {kubeConfig: {location: w-kubeconfig, locationType: Secret}}}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "queue.yaml"
    path.write_text(QUEUE)
    return path


def lint_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main(["lint", *arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_says_what_where_why_and_what_to_do(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", str(manifest)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f'{manifest}:2: warning: ClusterQueue "a" [limit-without-cohort]'
    assert lines[1].startswith("  what: spec.resourceGroups[0].flavors[0].resources[0].borrowing")
    assert lines[2].startswith("  why:  ")
    assert lines[3] == "  do:   set spec.cohortName, or remove the limit"
    assert lines[4] == "2 objects: 0 error, 1 warning, 0 info"


def test_an_error_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text(BROKEN_QUEUE)
    code, got = lint_json(capsys, str(path))
    assert code == 1
    assert isinstance(got["findings"], list)
    assert list(got["findings"][0]) == [
        "rule",
        "severity",
        "cluster",
        "kind",
        "namespace",
        "name",
        "source",
        "path",
        "what",
        "why",
        "todo",
    ]
    assert got["objects"] == 2


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--severity", "warning"], 1),
        (["--severity", "error"], 0),
        (["--ignore", "limit-without-cohort"], 0),
        (["--rule", "limit-without-cohort"], 1),
        (["--rule", "strict-fifo"], 0),
    ],
)
def test_findings_can_be_chosen(
    options: list[str], count: int, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, got = lint_json(capsys, str(manifest), *options)
    assert (code, len(got["findings"])) == (0, count)  # type: ignore[arg-type]


def test_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(QUEUE.encode())))
    assert main(["lint", "-"]) == 0
    assert "stdin:2: warning" in capsys.readouterr().out


def test_kinds_that_no_rule_reads_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}}
    ray = {"kind": "RayJob", "apiVersion": "ray.io/v1", "metadata": {"name": "r"}}
    (tmp_path / "all.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [other, other, ray]})
    )
    assert main(["lint", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == "nothing was checked: no object is of a kind that a rule reads\n"
    assert captured.err.splitlines() == [
        (
            "skipped: 1 x RayJob (ray.io/v1) without the label kueue.x-k8s.io/queue-name: "
            "no rule reads it"
        ),
        "skipped: 2 x Widget (example.com/v1): no rule reads it",
    ]


def test_reads_directories_and_says_what_is_no_object(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "list.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1"}]})
    )
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    (tmp_path / "README.md").write_text("not a manifest")
    assert main(["lint", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert f"{manifest}:2: warning" in captured.out
    assert captured.err == f"skipped: {tmp_path}/values.yaml:1: no object\n"


def test_lists_are_taken_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {}}
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [queue]}))
    assert lint_json(capsys, str(path))[1]["objects"] == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: 1\nb: [\n", "bad.yaml:3: not YAML: "),
        (b"kind: Job\n---\n\nmetadata: {}\n", "bad.yaml:1: no object; it needs apiVersion"),
        (b"apiVersion: v1\nkind: Pod\n---\n- 1\n", "bad.yaml:4: no object"),
        (b"a: 1\nb: \xff\n", "bad.yaml:2: not UTF-8 text"),
    ],
)
def test_a_broken_file_is_named_with_the_line(
    content: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    assert main(["lint", str(path)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x.yaml", "--cluster"],
        ["/does/not/exist.yaml"],
        ["x.yaml", "--worker", "w"],
        ["x.yaml", "--rule", "nope"],
        ["x.yaml", "--config", "/does/not/exist.yaml"],
        ["x.yaml", "--severity", "fatal"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_unknown_rule_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "x.yaml", "--ignore", "nope"]) == 2
    assert 'there is no rule "nope"; --list-rules' in capsys.readouterr().err


def test_lists_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--list-rules"]) == 0
    assert "limit-without-cohort" in capsys.readouterr().out
    assert main(["lint", "--list-rules", "-o", "json", "--rule", "strict-fifo"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)
    assert list(rule) == ["id", "severity", "title", "why"]


def test_the_configuration_is_found_among_the_files_or_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weighted = tmp_path / "queue.yaml"
    weighted.write_text(
        QUEUE.replace("spec:", "spec:\n  cohortName: c\n  fairSharing: {weight: 2}", 1)
    )
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
    rule = ("--rule", "fair-sharing-weight")
    assert lint_json(capsys, str(weighted), *rule)[1]["findings"] == []
    for arguments in ([str(tmp_path)], [str(weighted), "--config", str(config)]):
        assert len(lint_json(capsys, *arguments, *rule)[1]["findings"]) == 1  # type: ignore[arg-type]
    config.write_text(config.read_text() + "nope: 1\n")
    for arguments in ([str(tmp_path)], [str(weighted), "--config", str(config)]):
        assert main(["lint", *arguments]) == 2
        assert "nope: unknown field" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"stringData": {"config": "x"}}, 'has no key "kubeconfig"'),
        ({"stringData": {"kubeconfig": "users: [{name: u, user: {exec: {command: x}}}]"}}, "exec"),
        (
            {
                "data": {
                    "kubeconfig": base64.b64encode(
                        b"clusters: [{name: c, cluster: {server: 'https://x', "
                        b"insecure-skip-tls-verify: true}}]"
                    ).decode()
                }
            },
            "does not verify TLS",
        ),
    ],
)
def test_kubeconfigs_among_the_files_are_judged(
    data: dict[str, object], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {"name": "w-kubeconfig", "namespace": "kueue-system"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **data}
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "secret.json").write_text(json.dumps(secret))
    code, got = lint_json(capsys, str(tmp_path), "--rule", "worker-kubeconfig")
    assert code == 1
    assert says in got["findings"][0]["what"]  # type: ignore[index]


def test_manifests_of_workers_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    samples = Path(__file__).parents[3] / "config"
    worker = f"worker-a100={samples / 'samples-worker' / 'worker-a100'}"
    code, got = lint_json(capsys, str(samples / "samples"), "--worker", worker)
    assert code == 0
    other = f"worker-h100={samples / 'samples-provisioning'}"
    code, got = lint_json(capsys, str(samples / "samples"), "--worker", other)
    assert code == 1
    assert {f["rule"] for f in got["findings"]} == {"worker-queue-missing"}  # type: ignore[attr-defined]
