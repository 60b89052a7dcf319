"""The commands of the runbooks, run on one demo in the situation of their alert.

Each situation is made in turn, and stays. None lasts as long as its alert waits.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from multiqueue.cli.main import main
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    SECRETS,
    WORKLOADS,
)
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_demo import Served, served
from tests.integration.waiting import condition, is_true, until, until_one

pytestmark = [pytest.mark.programs, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
SYSTEM = "kueue-system"
LONG = 1_000_000.0
A100, H100 = "worker-a100", "worker-h100"


@dataclass(frozen=True, kw_only=True)
class AlertSituation:
    """A situation of one or more alerts.

    Attributes:
        alerts: Whose runbooks are tried in it.
        values: What the words in capitals stand for.
        make: Brings the situation about.
        tells: What commands must say, by their beginning: the cause must be seen.
        codes: The exit codes of commands that do not end with 0, by their beginning.
    """

    alerts: tuple[str, ...]
    values: dict[str, str]
    make: Callable[[Served], Awaitable[None]]
    tells: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)


async def submit(demo: Served, team: str, name: str, gpus: int, accelerator: str = "a100") -> None:
    job = DemoJob(
        team=team, name=name, pods=1, gpus_each=gpus, run_seconds=LONG, accelerator=accelerator
    )
    await apply_all(demo.manager, [build_job(job)])


async def starve(demo: Served) -> None:
    """Have training hold all A100s, which research may not take back."""
    spec = {"preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}}
    await demo.manager.patch(CLUSTER_QUEUES, "research", {"spec": spec})
    await submit(demo, "training", "big", 8)
    await until(
        demo.manager,
        WORKLOADS,
        lambda found: any(is_true(each, "Admitted") for each in found),
        namespace="training",
    )
    await submit(demo, "research", "blocked", 2)
    await until(
        demo.manager,
        WORKLOADS,
        lambda found: any(condition(each, "QuotaReserved").get("message") for each in found),
        namespace="research",
    )


async def do_nothing(_: Served) -> None:
    """Leave everything as it is."""


async def misspell(demo: Served) -> None:
    """Make a ClusterQueue whose flavor does not exist."""
    flavor = {"name": "a1000", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 1}]}
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
    queue |= {"metadata": {"name": "typo"}, "spec": {"resourceGroups": [group]}}
    await apply_all(demo.manager, [queue])
    await until_one(
        demo.manager,
        CLUSTER_QUEUES,
        "typo",
        lambda found: condition(found, "Active").get("status") == "False",
    )


async def drain(demo: Served) -> None:
    """Drain the worker with the only A100s."""
    annotations = {"multiqueue.dev/drain": "true"}
    await demo.manager.patch(MULTIKUEUE_CLUSTERS, A100, {"metadata": {"annotations": annotations}})
    await until_one(
        demo.manager,
        MULTIKUEUE_CLUSTERS,
        A100,
        lambda found: " stays: " in condition(found, "Drained").get("message", ""),
    )


async def lose_local_queue(demo: Served) -> None:
    """Delete a LocalQueue on a worker."""
    worker = next(client for name, client in demo.workers.items() if "h100" in name)
    await worker.delete(LOCAL_QUEUES, "inference", namespace="inference")


async def lose_worker(demo: Served) -> None:
    """Take the manager's kubeconfig for a worker away."""
    await demo.manager.delete(SECRETS, f"{H100}-kubeconfig", namespace=SYSTEM)
    await until_one(
        demo.manager,
        MULTIKUEUE_CLUSTERS,
        H100,
        lambda found: condition(found, "Active").get("status") == "False",
    )


async def until_mended(demo: Served) -> None:
    """Wait until the worker is back: the last runbook made a new kubeconfig."""
    await until_one(
        demo.manager,
        MULTIKUEUE_CLUSTERS,
        H100,
        lambda found: condition(found, "Active").get("status") == "True",
    )


SITUATIONS = (
    AlertSituation(
        alerts=(
            "KueueTeamStarved",
            "KueuePreemptionStorm",
            "KueueGpusIdleWhileWaiting",
            "KueueDispatchStuck",
            "KueueApiThrottled",
            "KueueLoopLate",
        ),
        values={"QUEUE": "research", "JOB": "research/blocked", "WORKER": H100},
        make=starve,
        tells={
            "queues show": "2 more needed; .*reclaimWithinCohort are Never",
            "why research/blocked": "2 more needed",
            "why research/blocked --clusters": "it waits for quota",
            "queue --cluster-queue": "research/job-blocked.*Queued",
            "kubectl get clusterqueue": "reclaimWithinCohort: Never",
        },
        codes={"why research/blocked --clusters": 1},  # it waits for quota, not for a worker
    ),
    AlertSituation(
        alerts=(
            "KueueEventsDropped",
            "KueueEvictionLoop",
            "KueuePodsLate",
            "KueueStageBurn",
            "KueueStageBurnSlow",
        ),
        values={"QUEUE": "training", "JOB": "training/big", "WORKER": H100},
        make=do_nothing,
        tells={
            "pods": "big-.* Running",
            "events": 'admitted on "worker-a100"',
            "clusters cordon": "cordoned",
        },
    ),
    AlertSituation(
        alerts=("KueueQueueInactive",),
        values={"QUEUE": "typo"},
        make=misspell,
        tells={
            "queues show": "queue inactive: .*a1000",
            "lint": 'ResourceFlavor "a1000" does not exist',
        },
        codes={"lint": 1},
    ),
    AlertSituation(
        alerts=("KueueDrainStuck",),
        values={"JOB": "training/big", "WORKER": A100},
        make=drain,
        tells={
            "clusters drain worker-a100 --dry-run": "stays .*no other cluster can take it",
            "why": "stays for now: no other cluster can take it",
            "clusters drain worker-a100 --force": "1 stopped by force",
            "kubectl describe": "multiqueue.dev/drain",
        },
    ),
    AlertSituation(
        alerts=("KueueDispatcherFailing",),
        values={"DISPATCHER": "score"},
        make=do_nothing,
        tells={"dispatcher test": "answers within the budget", "dispatcher record": '"score"'},
    ),
    AlertSituation(
        alerts=("KueueWorkerRejects",),
        values={"JOB": "training/big", "WORKER": H100},
        make=lose_local_queue,
        tells={
            "clusters verify": 'LocalQueue "inference/inference" is not there',
            "clusters sync": 'LocalQueue "inference/inference"',
        },
        codes={"clusters verify": 1, "clusters sync": 1},
    ),
    AlertSituation(
        alerts=(
            "KueueWorkerUnwell",
            "KueueWatchFlapping",
            "KueueWorkerSyncLag",
            "KueueWorkerLost",  # it ends with what mends the situation
        ),
        values={"JOB": "training/big", "WORKER": H100},
        make=lose_worker,
        tells={
            "clusters -o wide": 'worker-h100 +Disconnected .*-kubeconfig" not found',
            "clusters verify": "cannot tell",
            "kubectl describe": "BadKubeConfig",
        },
        codes={"clusters verify": 2},
    ),
    AlertSituation(
        alerts=("KueueWorkerCredentialsExpiring",),
        values={"WORKER": H100},
        make=until_mended,
        tells={"clusters verify": "credentials end"},
        codes={"clusters verify": 1},
    ),
)
LEFT_OUT = {
    "KueueManagerDown": "the manager of the demo is a process, not a Deployment",
    "KueueNoLeader": "the manager of the demo is a process, not a Deployment",
    "KueueWebhooksNotAsked": "it has no command of ours",
}
KUBECTL = shutil.which("kubectl")
T = TypeVar("T")
OF_KUBECTL = r"(?:describe|get) (?:multikueuecluster|clusterqueue|admissionchecks|dispatchprofiles)"


def commands_of(alert: str) -> list[str]:
    """The commands of a runbook that a demo can answer; each once, in their order."""
    text = (RUNBOOKS / f"{alert}.md").read_text()
    ours = r"multiqueue (?=[a-z])"
    found = re.findall(rf"(?:^|`)((?:{ours}|kubectl {OF_KUBECTL})[^`\n]*)", text, re.MULTILINE)
    return list(dict.fromkeys(each.removeprefix("multiqueue ") for each in found))


def merge_kubeconfigs(folder: Path) -> Path:
    """Write the manager's kubeconfig with a context for the worker, as operators have one."""
    merged = yaml.safe_load((folder / "manager.kubeconfig").read_text())
    worker = yaml.safe_load((folder / f"{H100}.kubeconfig").read_text())
    for kind, inner in (("clusters", "cluster"), ("users", "user")):
        merged[kind].append({"name": H100, inner: worker[kind][0][inner]})
    context = {"name": H100, "context": {"cluster": H100, "user": H100}}
    merged["contexts"].append(context)
    path = folder / "operator.kubeconfig"
    path.write_text(yaml.safe_dump(merged))
    return path


async def run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code of a command, and all that it says."""
    arguments = shlex.split(command)
    if arguments[0] != "kubectl":
        capsys.readouterr()
        code = await asyncio.to_thread(main, arguments)
        printed = capsys.readouterr()
        return code, printed.out + printed.err
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*arguments, stdout=pipe, stderr=pipe)
    out, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, (out + errors).decode()


async def try_out(situation: AlertSituation, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run the commands of the situation's runbooks; return what is wrong."""
    problems, seen = [], set()
    for alert in situation.alerts:
        for command in commands_of(alert):
            for word, value in situation.values.items():
                command = re.sub(rf"\b{word}\b", value, command)  # noqa: PLW2901
            if KUBECTL is None and command.startswith("kubectl "):
                continue
            code, told = await run(command, capsys)
            want = _of(situation.codes, command, 0)
            says = _of(situation.tells, command, "")
            seen |= {each for each in situation.tells if command.startswith(each)}
            if code != want or not re.search(says, told):
                problems.append(f"{alert}: {command}: {code}, not {want}, or no {says!r}:\n{told}")
    unused = set(situation.tells) - seen
    if KUBECTL is not None and unused:
        problems.append(f"no command of {situation.alerts} begins with {unused}")
    return problems


def _of(by_beginning: dict[str, T], command: str, default: T) -> T:
    """Return the value of the longest beginning of a command."""
    found = [each for each in by_beginning if command.startswith(each)]
    return by_beginning[max(found, key=len)] if found else default


async def test_the_commands_of_runbooks_tell_the_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert KUBECTL or not os.environ.get("CI"), "kubectl is required on CI"
    problems = []
    async with served(tmp_path, "--speed", "10") as demo:
        monkeypatch.setenv("KUBECONFIG", str(merge_kubeconfigs(tmp_path)))
        for situation in SITUATIONS:
            await situation.make(demo)
            problems += await try_out(situation, capsys)
    assert not problems, "\n".join(problems)


def test_each_runbook_is_tried() -> None:
    tried = {alert for situation in SITUATIONS for alert in situation.alerts}
    pages = {page.stem for page in RUNBOOKS.glob("Kueue*.md")}
    assert tried | set(LEFT_OUT) == pages
    assert not tried & set(LEFT_OUT)
