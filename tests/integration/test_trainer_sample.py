"""config/samples-disruption/trainer.py as a process: it saves when it is told, and when stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from multiqueue.serving.free_ports import find_free_ports

TRAINER = Path(__file__).parents[2] / "config" / "samples-disruption" / "trainer.py"
NOTICE = 'kubernetes.io/x="y"\nmultiqueue.dev/checkpoint-by="2026-11-22T10:05:00Z"\n'

pytestmark = pytest.mark.timeout(60)


@contextmanager
def training(folder: Path, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Run it in a folder, with a step every 10 ms."""
    environment = {
        **os.environ,
        "CHECKPOINT": str(folder / "checkpoint.json"),
        "ANNOTATIONS": str(folder / "annotations"),
        "ACCOUNT": str(folder / "none"),
        "STEP_SECONDS": "0.01",
        **settings,
    }
    command = [sys.executable, str(TRAINER)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(folder: Path, annotations: str) -> None:
    """Change the file as a kubelet does: at once."""
    (folder / "new").write_text(annotations)
    (folder / "new").replace(folder / "annotations")


def saved_step(folder: Path) -> int:
    return int(json.loads((folder / "checkpoint.json").read_text())["step"])


def test_it_saves_when_it_is_told_and_goes_on(tmp_path: Path) -> None:
    with training(tmp_path) as process:
        assert line(process) == "begins at step 0"
        tell(tmp_path, NOTICE)
        assert line(process).startswith("saved at 20")
        first = saved_step(tmp_path)
        assert first > 0
        tell(tmp_path, NOTICE.replace("10:05", "12:30"))
        assert line(process).startswith("saved at 20")
        assert saved_step(tmp_path) > first
        assert process.poll() is None


def test_it_saves_when_it_is_stopped_and_goes_on_from_there(tmp_path: Path) -> None:
    tell(tmp_path, NOTICE)
    with training(tmp_path) as process:
        assert line(process) == "begins at step 0"
        assert line(process).startswith("saved at 20")
        process.send_signal(signal.SIGTERM)
        assert line(process).startswith("saved at 20")
        assert process.wait(timeout=20) == 143
    step = saved_step(tmp_path)
    with training(tmp_path, STEPS=str(step + 3)) as process:
        assert line(process) == f"begins at step {step}"
        assert process.wait(timeout=20) == 0
    assert saved_step(tmp_path) == step + 3


def test_it_saves_when_its_hook_is_posted_to_and_not_again_for_the_same_notice(
    tmp_path: Path,
) -> None:
    (port,) = find_free_ports(1)
    with training(tmp_path, HOOK_ADDRESS="127.0.0.1", HOOK_PORT=str(port)) as process:
        assert line(process) == "begins at step 0"
        for moment in ("10:05", "12:30"):
            body = json.dumps({"checkpointBy": f"2026-11-22T{moment}:00Z"}).encode()
            urllib.request.urlopen(f"http://127.0.0.1:{port}/save", data=body, timeout=5).close()
            assert line(process).startswith("saved at 20")
            tell(tmp_path, NOTICE.replace("10:05", moment))
        process.send_signal(signal.SIGTERM)
        assert line(process).startswith("saved at 20")
        assert process.wait(timeout=20) == 143
        assert line(process) == ""
