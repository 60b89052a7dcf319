"""How many modules each command imports until its output: what a command costs, without a clock.

Every hundred modules take about 40 ms of a processor. A command that needs more says so here.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import orjson
import pytest

from multiqueue.kube.resources import WORKLOADS
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_demo import served
from tests.integration.waiting import is_true, until

pytestmark = [pytest.mark.programs, pytest.mark.timeout(120)]

LIMITS = {
    "--help": 30,
    "version": 30,
    "completion bash": 30,
    "create cq x --dry-run client -o yaml": 140,
    "config gates": 110,
    "stop cq research --dry-run server": 190,
    "queue -A": 250,
    "queue research -n research": 250,
    "queues show cq/research --diagnose": 220,
    "list cq": 250,
    "list workload -A": 250,
    "list pods --for job/big -n training": 300,
    "top --once": 210,
    "usage": 270,
    "changes": 250,
    "eta training/big": 220,
    "why training/big": 310,
    "pods training/big": 300,
    "logs training/big": 300,
    "events training/big": 310,
    "submit -f FILE": 290,
    "dispatch --dry-run -f FILE": 250,
    "dispatcher record": 240,
    "clusters": 350,
    "clusters drain worker-a100 --dry-run": 340,
    "clusters verify": 330,
    "lint --cluster": 390,
    "snapshot -o SNAPSHOT": 330,
    "replay SNAPSHOT": 350,
    "preempt --dry-run -f FILE": 480,
}
"""The most modules of ours and of other packages, by command: some more than there are now."""
SLOW = frozenset({"cel_expr_python", "cryptography", "prometheus_client", "rich", "structlog"})
"""Packages that no command above needs."""
PROBE = """
import sys
from multiqueue.cli.program import main

code = main()
names = {name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names}
sys.stdout.flush()
print(code, len(names), *sorted({name.partition(".")[0] for name in names}), file=sys.stderr)
"""


async def count(command: str, folder: Path) -> tuple[int, set[str]]:
    """Return how many modules a command imports, and of which packages."""
    told = command.replace("FILE", str(folder / "job.json"))
    arguments = told.replace("SNAPSHOT", str(folder / "fleet.snapshot")).split()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROBE, *arguments, stdout=pipe, stderr=pipe
    )
    _, errors = await process.communicate()
    code, number, *packages = errors.decode().splitlines()[-1].split()
    assert code == "0", (command, errors.decode())
    return int(number), set(packages)


async def test_each_command_imports_only_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = DemoJob(team="training", name="big", pods=1, gpus_each=4, run_seconds=1e6)
    probe = DemoJob(team="research", name="probe", pods=1, gpus_each=1, run_seconds=1e6)
    (tmp_path / "job.json").write_bytes(orjson.dumps(build_job(probe)))
    problems = []
    async with served(tmp_path) as demo:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "manager.kubeconfig"))
        await apply_all(demo.manager, [build_job(job)])
        await until(
            demo.manager, WORKLOADS, lambda found: any(is_true(each, "Admitted") for each in found)
        )
        for command, limit in LIMITS.items():
            number, packages = await count(command, tmp_path)
            if number > limit:
                problems.append(f"{command}: {number} modules, at most {limit}")
            if packages & SLOW:
                problems.append(f"{command}: needs no {', '.join(sorted(packages & SLOW))}")
    assert not problems, "\n".join(problems)
