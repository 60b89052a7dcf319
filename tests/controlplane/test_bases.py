"""Each base of config/ on a real control plane, applied twice, and what it gives to people."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest

from tests.controlplane import binaries
from tests.controlplane.conftest import StartControlPlane
from tests.install_steps import (
    apply_all_bases,
    assert_users_may_submit_and_no_more,
    delete_installation,
)


@pytest.mark.timeout(300)
async def test_bases_can_be_applied_again_and_users_get_their_rights(
    start_control_plane: StartControlPlane,
) -> None:
    plane = await asyncio.to_thread(start_control_plane, "bases")

    async def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> Any:
        command = [str(binaries.get("kubectl")), "--kubeconfig", str(plane.kubeconfig), *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, (arguments, done.stderr)
        return done.stdout

    await apply_all_bases(kubectl, "apply", "--server-side")
    await kubectl("create", "namespace", "team")
    await assert_users_may_submit_and_no_more(kubectl)
    await delete_installation(kubectl)
