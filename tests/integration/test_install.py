"""config/ on the embedded API server, with a manager that has the rights of its ServiceAccount."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.conversion.convert import converters
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.credentials import Credentials
from tests.install_steps import (
    apply_all_bases,
    assert_both_versions_are_admitted,
    assert_no_wildcard,
    assert_users_may_submit_and_no_more,
    define,
    token_of,
)
from tests.least_privilege import kubeconfig_of

KUBECTL = shutil.which("kubectl")


@pytest.mark.programs
@pytest.mark.kubectl
@pytest.mark.timeout(120)
async def test_what_is_installed_works_with_the_rights_that_it_has(tmp_path: Path) -> None:
    if KUBECTL is None:
        assert not os.environ.get("CI"), "kubectl is required on CI"
        pytest.skip("no kubectl found; install it to run this test")
    path = tmp_path / "kubeconfig"
    environment = {"KUBECONFIG": str(path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    async def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> Any:
        done = await asyncio.to_thread(
            subprocess.run,
            [KUBECTL, *arguments],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, (arguments, done.stderr)
        return done.stdout

    async with ApiServer(ServerOptions(converters=converters())) as server:
        path.write_text(yaml.safe_dump(server.kubeconfig()))
        await define(kubectl, "networkpolicies", "networking.k8s.io", "NetworkPolicy")
        await apply_all_bases(kubectl, "apply", "--validate=strict")
        token = await token_of(kubectl, "kueue-controller-manager")
        await assert_no_wildcard(kubectl, token)
        credentials = await Credentials.from_kubeconfig_dict(
            kubeconfig_of(server.kubeconfig(), token)
        )
        await assert_both_versions_are_admitted(kubectl, credentials)
        await assert_users_may_submit_and_no_more(kubectl)
