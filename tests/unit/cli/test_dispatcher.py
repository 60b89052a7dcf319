"""What a dispatcher's author is given: a package, a check of the promises, a replay."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from multiqueue_dispatchers.score import Score

from multiqueue.cli.main import main
from multiqueue.dispatcher_host.isolation.confine import open_libc
from multiqueue.dispatcher_host.isolation.landlock import find_version
from multiqueue.plugins import DispatchView, Nomination
from multiqueue.plugins.recording import Decision, write_recording
from multiqueue.plugins.testing import PROMISES, make_cluster, make_view
from tests.dispatcher_package import install

HERE = f"{__name__}:"


class Sloppy:
    name = "sloppy"

    def nominate(self, view: DispatchView) -> Nomination:
        return Nomination(clusters=("moon",))


class Refusing:
    name = "refusing"

    def nominate(self, view: DispatchView) -> Nomination:
        return Nomination(refusal="never on a Friday")


class Failing:
    name = "failing"

    def nominate(self, view: DispatchView) -> Nomination:
        raise RuntimeError("no idea")


class Listing:
    name = "listing"

    def nominate(self, view: DispatchView) -> list[str]:
        return []


ENDING = """
import os
import sys

class Ends:
    name = "ends"

    def nominate(self, view):
        os._exit(0)


class Wanders:
    name = "wanders"

    def nominate(self, view):
        from multiqueue.plugins import Nomination

        names = sorted(cluster.name for cluster in view.clusters)
        return Nomination(clusters=tuple(names[:1] if "click" in sys.modules else names[-1:]))


class Peeks:
    name = "peeks"

    def __init__(self):
        open("/etc/hostname").close()

    def nominate(self, view):
        raise NotImplementedError
"""


@pytest.fixture
def package(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    kinds = {kind.lower(): kind for kind in ("Ends", "Wanders", "Peeks")}
    install(folder, "audit_ending", ENDING, kinds)
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def recording(tmp_path) -> Path:
    clusters = [make_cluster("a"), replace(make_cluster("b", gpus=4), running=3)]
    views = [make_view(clusters=clusters, gpus=4), make_view(clusters=clusters, gpus=8)]
    decisions = [
        Decision(dispatcher="score", view=v, nomination=Score().nominate(v)) for v in views
    ]
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(b"".join(write_recording(decisions)))
    return path


class TestNew:
    def test_the_package_installs_its_tests_pass_and_its_types_hold(self, tmp_path):
        assert main(["dispatcher", "new", "fewest-jobs", "--directory", str(tmp_path)]) == 0
        package = tmp_path / "fewest-jobs"
        env = {**os.environ, "PYTHONPATH": str(package / "src"), "MYPY_CACHE_DIR": str(tmp_path)}
        for tool in (["pytest", "-q", "-p", "no:cacheprovider"], ["mypy"]):
            command = [sys.executable, "-m", *tool]
            done = subprocess.run(
                command, cwd=package, env=env, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
        text = (package / "pyproject.toml").read_text()
        assert '"fewest-jobs" = "fewest_jobs.dispatcher:FewestJobs"' in text

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("Cheapest", "lower-case letters"),
            ("random", "Python has already"),
            ("class", "Python has already"),
            ("pytest", "Python has already"),
            ("score", 'there is a dispatcher "score" already'),
            ("a" * 51, "at most 50 characters"),
            ("../x", "is no name for a dispatcher"),
        ],
    )
    def test_a_name_that_cannot_be_used_is_refused(self, tmp_path, capsys, name, words):
        assert main(["dispatcher", "new", name, "--directory", str(tmp_path)]) == 2
        assert words in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []

    def test_nothing_is_overwritten(self, tmp_path, capsys, monkeypatch):
        (tmp_path / "mine").mkdir()
        monkeypatch.chdir(tmp_path)
        assert main(["dispatcher", "new", "mine"]) == 2
        assert "mine exists already" in capsys.readouterr().err
        assert list((tmp_path / "mine").iterdir()) == []


class TestTest:
    def test_one_that_keeps_everything(self, capsys):
        assert main(["dispatcher", "test", "score"]) == 0
        assert "no:" not in capsys.readouterr().out

    def test_one_that_does_not_says_which_promise(self, capsys):
        assert main(["dispatcher", "test", f"{HERE}Sloppy", "-o", "json"]) == 1
        told = {each["promise"]: each for each in json.loads(capsys.readouterr().out)}
        assert 'names unknown cluster "moon"' in told.pop("known names")["problem"]
        assert all(each["kept"] for each in told.values())

    def test_what_an_answer_would_show_is_not_known_if_there_is_none(self, capsys):
        assert main(["dispatcher", "test", f"{HERE}Listing", "-o", "json"]) == 1
        told = {each["promise"]: each for each in json.loads(capsys.readouterr().out)}
        assert "answered list, not a Nomination" in told.pop("form")["problem"]
        assert {each["kept"] for each in told.values()} == {None}

    @pytest.mark.usefixtures("package")
    def test_one_that_ends_its_process_ends_nothing_here(self, capsys):
        assert main(["dispatcher", "test", "ends", "-o", "json"]) == 1
        told = {each["promise"]: each for each in json.loads(capsys.readouterr().out)}
        assert told.pop("apart")["problem"] == "ends: ended its process with status 0"
        assert told.keys() == PROMISES.keys()
        assert {each["kept"] for each in told.values()} == {None}

    @pytest.mark.usefixtures("package")
    def test_one_that_answers_otherwise_in_another_process_is_told(self, capsys):
        assert main(["dispatcher", "test", "wanders", "-o", "json"]) == 1
        told = {each["promise"]: each["problem"] for each in json.loads(capsys.readouterr().out)}
        assert told["apart"] == "wanders, view 2: answered otherwise than here"

    @pytest.mark.skipif(
        sys.platform != "linux" or not find_version(open_libc()),
        reason="nothing keeps files away here",
    )
    @pytest.mark.usefixtures("package")
    def test_what_no_manager_could_load_is_not_loaded_here(self, capsys):
        assert main(["dispatcher", "test", "peeks"]) == 1
        assert "cannot be loaded: PermissionError" in capsys.readouterr().err

    def test_all_dispatchers_of_a_package(self, capsys):
        name = "multiqueue"
        assert importlib.metadata.distribution(name)
        assert main(["dispatcher", "test", name, "--order-matters", "-o", "json"]) == 0
        names = {each["dispatcher"] for each in json.loads(capsys.readouterr().out)}
        assert {"score", "cheapest-first"} <= names

    def test_what_is_not_there_is_told_with_what_is(self, capsys):
        assert main(["dispatcher", "test", "moon-shot"]) == 2
        told = capsys.readouterr().err
        assert "installed are: all-at-once, cheapest-first" in told
        assert told.endswith(
            "Install its package (pip install -e FOLDER), or name a module:Class that can be "
            "imported\n"
        )
        assert main(["dispatcher", "test", "no.such:Thing"]) == 1
        assert "cannot be loaded: ModuleNotFoundError" in capsys.readouterr().err

    def test_a_recording_is_asked_about_too(self, recording, capsys):
        assert main(["dispatcher", "test", "score", "--recording", str(recording)]) == 0
        assert "asked about 29 views" in capsys.readouterr().out


class TestReplay:
    def test_only_differences_are_shown(self, recording, capsys):
        assert main(["dispatcher", "replay", str(recording), "--dispatcher", "round-robin"]) == 0
        out = capsys.readouterr().out
        assert "2 decisions, 1 differ, 0 failed" in out
        assert out.count("team-a/train") == 1
        assert main(["dispatcher", "replay", str(recording), "--dispatcher", "score"]) == 0
        assert "2 decisions, 0 differ, 0 failed" in capsys.readouterr().out

    def test_one_that_fails_is_told_beside_what_was(self, recording, capsys):
        arguments = ["dispatcher", "replay", str(recording), "--dispatcher", f"{HERE}Failing"]
        assert main([*arguments, "-o", "json"]) == 1
        first, _ = json.loads(capsys.readouterr().out)
        assert (first["then"], first["now"]) == (["b"], [])
        line = Failing.nominate.__code__.co_firstlineno + 1
        assert first["problem"] == f"RuntimeError: no idea (test_dispatcher.py, line {line})"

    def test_what_a_manager_would_drop_is_a_failure(self, recording, capsys):
        arguments = ["dispatcher", "replay", str(recording), "--dispatcher", f"{HERE}Sloppy"]
        assert main(arguments) == 1
        assert 'failed: named "moon", which it was not shown' in capsys.readouterr().out

    @pytest.mark.usefixtures("package")
    def test_one_that_ends_its_process_is_asked_again_a_few_times(self, recording, capsys):
        recording.write_bytes(recording.read_bytes() * 2)
        assert main(["dispatcher", "replay", str(recording), "--dispatcher", "ends"]) == 1
        out = capsys.readouterr().out
        assert out.count("failed: ended its process with status 0") == 3
        assert out.count("failed: was not asked any more") == 1

    def test_a_refusal_is_another_decision_than_nowhere_and_order_none(self, recording, capsys):
        view = make_view(clusters=[make_cluster("a"), make_cluster("b")])
        both = Decision(dispatcher="x", view=view, nomination=Nomination(clusters=("b", "a")))
        decisions = [Decision(dispatcher="x", view=view, nomination=Nomination()), both]
        recording.write_bytes(b"".join(write_recording(decisions)))
        command = ["dispatcher", "replay", str(recording), "--dispatcher"]
        assert main([*command, f"{HERE}Refusing"]) == 0
        out = capsys.readouterr().out
        assert "2 decisions, 2 differ, 0 failed" in out
        assert out.count("refused") == 2
        assert main([*command, "all-at-once"]) == 0
        assert "2 decisions, 1 differ, 0 failed" in capsys.readouterr().out

    def test_arguments_are_given_and_checked_and_not_those_of_another(self, recording, capsys):
        command = ["dispatcher", "replay", str(recording), "--dispatcher", "score"]
        assert main([*command, "--set", "scorers={packing: 0, spreading: 50}"]) == 0
        assert "2 decisions, 1 differ, 0 failed" in capsys.readouterr().out
        assert main([*command, "--set", "race=0"]) == 2
        assert "argument race: 0 must be" in capsys.readouterr().err
        assert main([*command, "--set", "race"]) == 2
        text = recording.read_text().replace('"now"', '"arguments":{"stepSize":"x"},"now"')
        recording.write_text(text)
        assert main([*command[:-1], "incremental"]) == 0

    def test_a_broken_recording_says_where(self, tmp_path, capsys):
        path = tmp_path / "broken.jsonl"
        path.write_text('{"dispatcher": "x"}\n')
        assert main(["dispatcher", "replay", str(path), "--dispatcher", "score"]) == 2
        assert "broken.jsonl: line 1: Decision.view: is missing" in capsys.readouterr().err


def test_list_shows_what_is_installed(capsys):
    assert main(["dispatcher", "list"]) == 0
    assert "multiqueue_dispatchers.score:Score" in capsys.readouterr().out
