"""config/ on a real control plane, with a manager that has the rights of its ServiceAccount."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest

from multiqueue.kube.credentials import Credentials
from tests.controlplane import binaries
from tests.controlplane.conftest import StartControlPlane
from tests.install_steps import (
    apply_all_bases,
    assert_both_versions_are_admitted,
    assert_no_wildcard,
    assert_users_may_submit_and_no_more,
    delete_installation,
    token_of,
)


@pytest.mark.timeout(300)
async def test_what_is_installed_works_with_the_rights_that_it_has(
    start_control_plane: StartControlPlane,
) -> None:
    plane = await asyncio.to_thread(start_control_plane, "install")

    async def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> Any:
        command = [str(binaries.get("kubectl")), "--kubeconfig", str(plane.kubeconfig), *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, (arguments, done.stderr)
        return done.stdout

    await apply_all_bases(kubectl, "apply", "--server-side")
    token = await token_of(kubectl, "kueue-controller-manager")
    await assert_no_wildcard(kubectl, token)
    credentials = await Credentials.from_kubeconfig_dict(
        plane.kubeconfig_for(token), allow_files=True
    )
    await assert_both_versions_are_admitted(kubectl, credentials)
    await assert_users_may_submit_and_no_more(kubectl)
    await delete_installation(kubectl)
