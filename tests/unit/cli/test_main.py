"""The command line as a whole: help, exit codes, no tracebacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from multiqueue import __version__
from multiqueue.cli.commands import demo
from multiqueue.cli.commands.clusters import SUBCOMMANDS
from multiqueue.cli.main import COMMANDS, SECTIONS, main
from multiqueue.cli.manifests import read_manifests


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)
    assert all(f"{heading}:" in text for heading in SECTIONS)
    assert "Exit codes" in text


@pytest.mark.parametrize(
    ("arguments", "command"), [(["quueue"], "queue"), (["clusters", "cordonn"], "cordon")]
)
def test_a_misspelled_command_is_answered_with_the_right_one(
    arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"Did you mean '{command}'" in capsys.readouterr().err


def test_the_name_of_a_queue_gets_the_command_that_shows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["queues", "research"]) == 2
    assert "No such command 'research'. Did you mean 'show research'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"multiqueue {name}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["queue", "a", "--cluster-queue", "b"],
        ["submit"],
        ["submit", "-f", "/does/not/exist.yaml"],
        ["run", "--config", "/does/not/exist.yaml"],
        ["run", "--feature-gates", "MultiKueue"],
        ["run", "--feature-gates", "NoSuchGate=true"],
        ["apiserver", "--nodes", "toaster"],
        ["demo", "--once", "--serve"],
        ["changes", "--kind", "toaster"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["queue", "clusters", "why"])
def test_an_unreachable_cluster_ends_with_3(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    arguments = [command, *(["train"] if command == "why" else []), "--kubeconfig", str(kubeconfig)]
    assert main(arguments) == 3
    error = capsys.readouterr().err
    assert "http://127.0.0.1:1" in error
    assert "Traceback" not in error


def test_a_missing_kubeconfig_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "--kubeconfig", "/does/not/exist"]) == 2
    assert "/does/not/exist" in capsys.readouterr().err


def test_an_unknown_context_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    assert main(["queue", "--kubeconfig", str(kubeconfig), "--context", "nope"]) == 2
    assert 'no context "nope"' in capsys.readouterr().err


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_of_a_command_is_for_people(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "\\b" not in shown
    assert shown.startswith(f"Usage: multiqueue {command}")


def test_the_demo_prints_for_people_like_other_commands() -> None:
    (option,) = (each for each in demo.command.params if each.name == "output")
    context = click.Context(demo.command)
    shown = {word: option.process_value(context, word) for word in ("human", "table", "json")}
    assert shown == {"human": "human", "table": "human", "json": "json"}
    assert option.get_default(context) == "human"


def test_values_may_follow_short_options_as_with_kubectl(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    arguments = ["queue", "-n=team", "-o=json", "--kubeconfig", str(kubeconfig)]
    assert main(arguments) == 3  # understood: it is the cluster that does not answer
    assert main([*arguments[:2], "-o=toml"]) == 2


class TestManifests:
    def test_lists_are_taken_apart_and_empty_documents_skipped(self, tmp_path: Path) -> None:
        path = tmp_path / "m.yaml"
        path.write_text(
            "---\n---\nkind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: A}\n"
            "---\napiVersion: v1\nkind: B\n"
        )
        assert [manifest["kind"] for manifest in read_manifests(str(path))] == ["A", "B"]

    def test_a_directory_gives_its_own_manifests_in_the_order_of_names(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "deeper").mkdir()
        for name in ("c.json", "b.yml", "a.yaml", "notes.txt", "deeper/d.yaml"):
            (tmp_path / name).write_text(f'{{"apiVersion": "v1", "kind": "{name[0].upper()}"}}')
        assert [each["kind"] for each in read_manifests(str(tmp_path))] == ["A", "B", "C"]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("a: [", "not valid YAML"),
            ("just text", "no object"),
            ("kind: Job", "no apiVersion"),
            ("apiVersion: v1", "no kind"),
        ],
    )
    def test_other_files_are_refused(
        self, text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "m.yaml"
        path.write_text(text)
        assert main(["submit", "-f", str(path)]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["run"], ["why"], ["clusters"]])
def test_help_imports_nothing_slow(command: list[str]) -> None:
    code = (
        "import sys; from multiqueue.cli.main import main; "
        f"main([*{command}, '--help']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    slow = {"aiohttp", "kubernetes_asyncio", "msgspec", "rich", "structlog", "tenacity", "yaml"}
    assert not set(done.stdout.split()) & slow


class TestClusters:
    @pytest.mark.parametrize("name", SUBCOMMANDS)
    def test_every_subcommand_has_help(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["clusters", name, "--help"]) == 0
        assert f"multiqueue clusters {name}" in capsys.readouterr().out

    @pytest.mark.parametrize("words", [("clusters", "cordon"), ("cohorts", "show")])
    def test_options_may_stand_before_the_subcommand(
        self, words: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        group, subcommand = words
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG)
        assert main([group, "--kubeconfig", str(kubeconfig), subcommand, "worker"]) == 3
        assert "http://127.0.0.1:1" in capsys.readouterr().err
