"""The demo's jobs: twelve with a known end, and an endless stream of plausible ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from multiqueue.api import names
from multiqueue.embedded.cluster.lifecycle import EXIT_CODE, RUN_SECONDS
from multiqueue.embedded.cluster.nodes import ACCELERATOR_LABEL
from multiqueue.runtime.demo.objects import GPU, TEAMS

IMAGE = "ghcr.io/example/trainer:latest"


class End(StrEnum):
    """How a job ends. A job that can never run ends when the manager says so."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    IMPOSSIBLE = "Impossible"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """One gang: ``pods`` pods that start together, each with ``gpus_each`` GPUs.

    Attributes:
        accelerator: The only kind of GPU that the gang accepts; "" for any.
        run_seconds: How long its pods run, in simulated seconds.
        workers: The workers that it can run on; empty if it must not run.
        declares: Whether it says how long it runs.
        bad_quantity: An invalid text to write instead of the number of GPUs.
    """

    team: str
    name: str
    pods: int
    gpus_each: int
    run_seconds: float
    accelerator: str = ""
    priority: str = ""
    exit_code: int = 0
    end: End = End.SUCCEEDED
    workers: tuple[str, ...] = ()
    bad_quantity: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    declares: bool = False

    @property
    def gpus(self) -> int:
        """The number of GPUs of all its pods."""
        return self.pods * self.gpus_each

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.team}/{self.name}"


def build_job(job: DemoJob) -> dict[str, Any]:
    """Return the manifest that a team member would write."""
    amount = job.bad_quantity or str(job.gpus_each)
    resources = {
        "requests": {"cpu": "2", "memory": "8Gi", GPU: amount},
        "limits": {GPU: amount},
    }
    labels = {names.QUEUE_NAME: job.team, **job.labels}
    if job.priority:
        labels[names.PRIORITY_CLASS] = job.priority
    annotations = {RUN_SECONDS: f"{job.run_seconds:g}"}
    if job.exit_code:
        annotations[EXIT_CODE] = str(job.exit_code)
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{"name": "trainer", "image": IMAGE, "resources": resources}],
    }
    if job.accelerator:
        spec["nodeSelector"] = {ACCELERATOR_LABEL: job.accelerator}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name,
            "namespace": job.team,
            "labels": labels,
            "annotations": {names.RUNTIME: f"{job.run_seconds:g}s"} if job.declares else {},
        },
        "spec": {
            "parallelism": job.pods,
            "completions": job.pods,
            "backoffLimit": 0,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


A100, H100 = ("worker-a100",), ("worker-h100",)
ANY = A100 + H100

ONCE = (
    DemoJob(
        team="research", name="bert-pretrain", pods=4, gpus_each=2, run_seconds=4, workers=A100
    ),
    DemoJob(
        team="training",
        name="llama-finetune",
        pods=2,
        gpus_each=2,
        run_seconds=4,
        accelerator="h100",
        workers=H100,
    ),
    DemoJob(team="inference", name="embed-batch", pods=1, gpus_each=1, run_seconds=3, workers=ANY),
    DemoJob(
        team="research", name="ablation-small", pods=2, gpus_each=1, run_seconds=3, workers=ANY
    ),
    DemoJob(team="training", name="resnet-sweep", pods=4, gpus_each=1, run_seconds=3, workers=ANY),
    DemoJob(
        team="inference",
        name="eval-nightly",
        pods=1,
        gpus_each=2,
        run_seconds=3,
        accelerator="h100",
        workers=H100,
    ),
    DemoJob(team="training", name="vit-large", pods=1, gpus_each=8, run_seconds=3, workers=A100),
    DemoJob(team="research", name="tokenize", pods=1, gpus_each=1, run_seconds=2, workers=ANY),
    DemoJob(team="inference", name="distill", pods=3, gpus_each=1, run_seconds=3, workers=ANY),
    DemoJob(
        team="training",
        name="nan-loss",
        pods=2,
        gpus_each=1,
        run_seconds=1,
        exit_code=1,
        end=End.FAILED,
        workers=ANY,
    ),
    DemoJob(
        team="research",
        name="too-wide",
        pods=4,
        gpus_each=2,
        run_seconds=1,
        accelerator="h100",
        end=End.IMPOSSIBLE,
    ),
    DemoJob(
        team="inference",
        name="typo",
        pods=1,
        gpus_each=1,
        run_seconds=1,
        bad_quantity="two",
        end=End.REFUSED,
    ),
)

_KINDS = {
    "research": ("ablation", "probe", "scaling-law", "sweep"),
    "training": ("finetune", "pretrain", "sft", "rlhf"),
    "inference": ("batch-eval", "embed", "distill", "rerank"),
}
_SHAPES = ((1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (1, 4), (4, 2), (8, 1))
_SHAPE_WEIGHTS = (4, 4, 3, 3, 2, 2, 1, 1)


_GANG = "flagship"
_FIRST_GANG, _GANG_EVERY = 8, 40


def is_gang(job: DemoJob) -> bool:
    """Whether a job is the large gang of the stream."""
    return job.name.startswith(_GANG)


def _make_gang(number: int) -> DemoJob:
    """Return a gang that needs all H100 GPUs, and before all other jobs by its priority."""
    return DemoJob(
        team="training",
        name=f"{_GANG}-{number:03}",
        pods=4,
        gpus_each=1,
        run_seconds=12,
        accelerator="h100",
        priority="flagship",
        declares=True,
    )


def endless_jobs(seed: int = 7) -> Iterator[DemoJob]:
    """Generate jobs of all teams, with a large gang now and then; the same seed gives the same."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    number = 0
    while True:
        number += 1
        if number % _GANG_EVERY == _FIRST_GANG:
            yield _make_gang(number)
            continue
        team = chance.choice(TEAMS).name
        pods, gpus_each = chance.choices(_SHAPES, _SHAPE_WEIGHTS)[0]
        gpus = pods * gpus_each
        accelerator = "h100" if gpus <= 4 and chance.random() < 0.25 else ""
        priority = ""
        if team == "inference" and chance.random() < 0.4:
            priority = "inference-prod"
        yield DemoJob(
            team=team,
            name=f"{chance.choice(_KINDS[team])}-{number:03}",
            pods=pods,
            gpus_each=gpus_each,
            run_seconds=round(chance.uniform(6, 20), 1),
            accelerator=accelerator,
            priority=priority,
            exit_code=1 if chance.random() < 0.05 else 0,
            declares=True,
        )
