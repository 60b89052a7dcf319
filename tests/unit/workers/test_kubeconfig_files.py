"""A kubeconfig file that hangs is named and holds up nobody."""

from __future__ import annotations

import asyncio
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from multiqueue.workers.kubeconfigs.credentials import KubeconfigRefusal
from multiqueue.workers.kubeconfigs.sources import KubeconfigFiles


@pytest.fixture
def pipe(tmp_path: Path):
    """A file that nobody can open for reading until the test is over."""
    path = tmp_path / "hangs"
    os.mkfifo(path)
    yield path
    os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


async def test_a_file_is_read(tmp_path):
    (tmp_path / "a").write_text("content")
    assert await KubeconfigFiles(tmp_path).read(str(tmp_path / "a")) == b"content"


async def test_one_that_hangs_is_refused_and_the_others_are_read_meanwhile(tmp_path, pipe):
    """M-35."""
    (tmp_path / "a").write_text("content")
    files = KubeconfigFiles(tmp_path, budget=timedelta(milliseconds=20))
    patient = KubeconfigFiles(tmp_path)
    hung, read = await asyncio.gather(files.read(str(pipe)), patient.read(str(tmp_path / "a")))
    assert read == b"content"
    assert isinstance(hung, KubeconfigRefusal)
    assert hung.message == f'kubeconfig file "{pipe}" could not be read within 0.02 s'


async def test_one_that_hangs_costs_one_thread_only(tmp_path, pipe):
    files = KubeconfigFiles(tmp_path, budget=timedelta(milliseconds=5))
    for _ in range(3):
        await files.read(str(pipe))
    assert [t.name for t in threading.enumerate()].count(f"kubeconfig {pipe}") == 1
