"""docs/install.md as a script: its blocks in order, on two clusters that the caller has."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml

from tests.integration.page_commands import PageShell, read_blocks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "install.md"
MARK = "it needs two clusters; tests/integration/test_install_page.py runs it"
LEFT_OUT = {
    "it needs a network",
    "it needs docker and a registry",
    "it needs a cluster whose API server reaches this machine",
}
NAMES = ("manager", "worker-1")
IMAGE = "registry.example.com/multiqueue:0.1.0"
SYSTEM = ("--namespace=kueue-system", "--output=json")
ROLLOUT = "rollout status"

Kubectl = Callable[..., str]
StartPods = Callable[[str], AbstractContextManager[Any]]


def run_page(
    folder: Path, environment: Mapping[str, str], start: StartPods, *, without: str = ""
) -> AbstractContextManager[None]:
    """Run the page; the programs that it installed run until the end of the block.

    Args:
        folder: An empty one, in which the commands are run.
        environment: With programs and a kubeconfig that has a context for each of `NAMES`.
        start: Runs what the pods of a cluster's Deployment would run, once they were rolled out.
        without: Commands with this text in them are left out.

    Raises:
        AssertionError: A command fails, or does not print what the page shows.
    """
    blocks = list(read_blocks(PAGE.read_text()))
    assert {block.reason for block in blocks} == {MARK, *LEFT_OUT}
    (folder / "config").symlink_to(ROOT / "config")

    @contextlib.contextmanager
    def run() -> Iterator[None]:
        waiting = list(NAMES)
        with contextlib.ExitStack() as stack:
            shell = PageShell(folder, environment)
            stack.callback(shell.close)
            for block in (block for block in blocks if block.reason == MARK):
                for command in block.commands:
                    skipped = without and without in command.text
                    problem = "" if skipped else shell.run(command)
                    assert not problem, f"{PAGE.name}:{block.line}: {command.text}\n{problem}"
                    if ROLLOUT in command.text:
                        name = waiting.pop(0)
                        assert f"--context {name} " in command.text
                        stack.enter_context(start(name))
            assert not waiting
            yield

    return run()


def merge(kubeconfigs: Mapping[str, Path], into: Path) -> None:
    """Write a kubeconfig that has each of these as a context, the first as the current one."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": NAMES[0]}
    merged |= {"clusters": [], "users": [], "contexts": []}
    for name, path in kubeconfigs.items():
        given = yaml.safe_load(path.read_text())
        merged["clusters"].append(given["clusters"][0] | {"name": name})
        merged["users"].append(given["users"][0] | {"name": name})
        merged["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    into.write_text(yaml.safe_dump(merged))


def environment_with(kubeconfig: Path, *programs: Path) -> dict[str, str]:
    """The environment of an administrator, who has these programs and the command."""
    path = [*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {**os.environ, "PATH": os.pathsep.join(path), "KUBECONFIG": str(kubeconfig)}


def kubectl_of(kubeconfig: Path, program: str) -> Kubectl:
    """A kubectl of a cluster's administrator; answers what it prints."""

    def kubectl(*arguments: str, stdin: str | None = None) -> str:
        command = [program, "--kubeconfig", str(kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    return kubectl


def installed_settings(kubectl: Kubectl, sections: Sequence[str]) -> dict[str, Any]:
    """Sections of the Configuration that the Deployment of the page mounts."""
    deployment = json.loads(kubectl("get", "deployment", "kueue-controller-manager", *SYSTEM))
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == IMAGE
    (name,) = (each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each)
    stored = json.loads(kubectl("get", "configmap", name, *SYSTEM))
    settings = yaml.safe_load(stored["data"]["controller_manager_config.yaml"])
    return {each: settings[each] for each in sections}


def assert_it_runs_on_the_worker(kubectls: Mapping[str, Kubectl]) -> None:
    """The first job has a pod on the worker, none on the manager, and its status is on both."""
    pods, jobs = (
        {
            name: json.loads(kubectl("get", kind, "--namespace=team-a", "--output=json"))["items"]
            for name, kubectl in kubectls.items()
        }
        for kind in ("pods", "jobs")
    )
    assert [len(pods[name]) for name in NAMES] == [0, 1]
    assert [[job["metadata"]["name"] for job in jobs[name]] for name in NAMES] == [["first"]] * 2
    (job,) = jobs["manager"]
    assert job["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert job["status"]["active"] == 1
