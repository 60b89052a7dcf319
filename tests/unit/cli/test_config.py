"""``multiqueue config``: exit codes, words, and what is printed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from multiqueue.cli.main import main
from multiqueue.kube import certificates
from tests.dispatcher_package import install


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("multiKueue: {gcInterval: 5m}\n")
    return path


def test_a_good_file_is_ok(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", str(config)]) == 0
    assert capsys.readouterr() == ("OK\n", "")


def test_says_every_problem_with_its_field(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("namespace: A\nwebhook: {port: 70000}\nfoo: 1\n")
    assert main(["config", "check", str(config)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["error", "foo"],
        ["error", "namespace"],
        ["error", "webhook.port"],
    ]


def test_warns_of_what_does_nothing(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("pprofBindAddress: ':8083'\nmultiKueue: {dispatcherName: example.com/none}\n")
    assert main(["config", "check", str(config)]) == 0
    captured = capsys.readouterr()
    assert captured.out == "OK\n"
    first, second = captured.err.splitlines()
    assert first.startswith("warning: pprofBindAddress: does nothing")
    assert second.startswith("warning: multiKueue.dispatcherName: ")


def test_prints_what_holds(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", str(config), "--effective"]) == 0
    effective = yaml.safe_load(capsys.readouterr().out)
    assert effective["multiKueue"]["gcInterval"] == "5m0s"
    assert effective["webhook"]["port"] == 9443


def test_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("apiVersion: v1\n"))
    assert main(["config", "check", "-"]) == 1
    assert 'apiVersion: "v1" is not supported' in capsys.readouterr().err


def test_gates_come_from_one_place(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gates = ["--feature-gates", "PartialAdmission=false"]
    assert main(["config", "check", str(config), *gates]) == 0
    config.write_text("featureGates: {PriorityBoost: true}\n")
    assert main(["config", "check", str(config), *gates]) == 2
    assert "keep one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "/does/not/exist.yaml"],
        ["check", "-", "--feature-gates", "x"],
        ["frobnicate"],
    ],
)
def test_wrong_usage_ends_with_2(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["config", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_prints_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "defaults"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["namespace"] == "kueue-system"
    assert main(["config", "defaults", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "Configuration"


def test_lists_the_gates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "gates"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 81
    assert main(["config", "gates", "-o", "json"]) == 0
    gates = {gate["name"]: gate for gate in json.loads(capsys.readouterr().out)}
    assert gates["TASProfileMixed"]["requires"] == ["TopologyAwareScheduling"]
    assert gates["PartialAdmission"]["support"] == "both settings"
    assert gates["CustomMetricLabels"]["why"]


def test_every_mistake_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "multiKueue:\n"
        "  dispatcherName: score\n"
        "  dispatcherArguments: {teirs: 1}\n"
        "  drainAtOnce: 0\n"
        "  gcInterval: 5\n"
        "  origine: x\n"
        "webhook: {port: -1}\n"
    )
    assert main(["config", "check", str(config)]) == 1
    fields = [
        line.removeprefix("error: ").partition(":")[0]
        for line in capsys.readouterr().err.splitlines()
    ]
    assert fields == [
        "multiKueue.origine",
        "multiKueue.gcInterval",
        "webhook.port",
        "multiKueue.drainAtOnce",
        "multiKueue.dispatcherArguments",
    ]


@pytest.mark.parametrize(
    ("section", "says"),
    [
        (
            "{dispatcherName: scor}",
            'dispatcherName: dispatcher "scor" is not installed; did you mean "score"? Installed',
        ),
        (
            "{dispatcherName: score, dispatcherArguments: {race: none}}",
            "dispatcherArguments: argument race: ",
        ),
        (
            "{dispatcherName: score, dispatcherArguments: {teirs: 1}}",
            "dispatcherArguments: argument teirs: is unknown",
        ),
    ],
)
def test_a_dispatcher_that_cannot_work_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], section: str, says: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"multiKueue: {section}\n")
    assert main(["config", "check", str(config)]) == 1
    output = capsys.readouterr()
    assert output.err.startswith(f"error: multiKueue.{says}")
    assert "OK" not in output.out


OLD_KERNEL = """
import sys
from multiqueue.cli.main import main
from tests.old_kernel import lose_landlock

lose_landlock()
sys.exit(main(["config", "check", sys.argv[1]]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (
            "Process",
            "files: the kernel has no Landlock (Linux 5.13)",
        ),
        ("Thread", ""),
    ],
)
def test_says_what_a_dispatcher_reaches_on_an_old_kernel(
    config: Path, mode: str, words: str
) -> None:
    code = "class Mine:\n    name = 'mine'\n\n    def nominate(self, view): ...\n"
    install(config.parent, "my_dispatchers", code, {"mine": "Mine"})
    config.write_text(
        f"multiKueue: {{dispatcherName: mine, dispatcherIsolation: {{mode: {mode}}}}}\n"
    )
    paths = os.pathsep.join(map(str, [config.parent, *sys.path]))
    told = subprocess.run(
        [sys.executable, "-c", OLD_KERNEL, str(config)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    field = 'multiKueue.dispatcherIsolation: this machine cannot keep dispatcher "mine" from'
    assert told.stderr == (f"warning: {field} {words}\n" if words else "")


def test_what_becomes_of_unsupported_kinds_is_checked(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("unsupportedKinds: Allow\n")
    assert main(["config", "check", str(config)]) == 1
    assert capsys.readouterr().err == (
        'error: unsupportedKinds: "Allow" is unknown; use Warn or Deny\n'
    )


def certificate_files(directory: Path, *, authority: bool, host: str) -> None:
    now = datetime.now(UTC)
    ours = certificates.create_authority("ours", now)
    other = certificates.create_authority("other", now)
    pair = certificates.issue_certificate(ours, host, [host], now)
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)
    (directory / "ca.crt").write_bytes((ours if authority else other).certificate)


HOST = "kueue-webhook-service.kueue-system.svc"


@pytest.mark.parametrize(
    ("authority", "host", "why"),
    [
        (True, HOST, ""),
        (False, HOST, "unable to get local issuer certificate"),
        (True, "webhook.example.com", f"certificate is not valid for '{HOST}'"),
    ],
    ids=["signed by ca.crt", "signed by another authority", "for another host"],
)
def test_certificates_that_would_not_be_trusted_are_errors(
    config: Path, capsys: pytest.CaptureFixture[str], *, authority: bool, host: str, why: str
) -> None:
    certificate_files(config.parent, authority=authority, host=host)
    config.write_text(
        f"webhook: {{certDir: {config.parent}}}\ninternalCertManagement: {{enable: false}}\n"
    )
    assert main(["config", "check", str(config)]) == (1 if why else 0)
    errors = capsys.readouterr().err
    if not why:
        assert errors == ""
        return
    assert errors.startswith("error: webhook.certDir: the API server would not trust")
    assert why in errors
    assert "put the authority that signed tls.crt into ca.crt" in errors


def test_an_authority_that_cannot_be_seen_is_warned_of(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("webhook: {certDir: /nowhere}\ninternalCertManagement: {enable: false}\n")
    assert main(["config", "check", str(config)]) == 0
    assert "--cluster verifies it" in capsys.readouterr().err
