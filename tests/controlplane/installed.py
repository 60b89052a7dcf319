"""This program installed on a real control plane as an administrator would, and run there."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from multiqueue.visibility.registration import EXTERNAL_SERVICE_NAME
from tests.controlplane.plane import HOST, RealControlPlane
from tests.controlplane.polling import answers, until
from tests.controlplane.ports import find_own_ports
from tests.processes import running, wait_for_text

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config"
NAMESPACE, ACCOUNT = "kueue-system", "kueue-controller-manager"


def install(plane: RealControlPlane, source: Path = ROOT) -> None:
    """Apply config/default, and wait until its kinds are served."""
    plane.kubectl("apply", "--server-side", "-k", str(source / "config" / "default"))
    plane.wait_until_served()


def let_visibility_be_reached(plane: RealControlPlane) -> None:
    """Let a manager with the gate VisibilityOnDemand, which runs here, serve its API outside."""
    rights = "--verb=get,patch", "--resource=services", f"--namespace={NAMESPACE}"
    account = f"--serviceaccount={NAMESPACE}:{ACCOUNT}", f"--namespace={NAMESPACE}"
    outside = "externalname", EXTERNAL_SERVICE_NAME, f"--external-name={HOST}"
    plane.kubectl("create", "service", *outside, f"--namespace={NAMESPACE}")
    plane.kubectl("create", "role", "outside", *rights)
    plane.kubectl("create", "rolebinding", "outside", "--role=outside", *account)


@contextlib.contextmanager
def manager(
    plane: RealControlPlane,
    folder: Path,
    *,
    webhook_host: str = HOST,
    source: Path = ROOT,
    **settings: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a replica as the service account, configured as shipped but listening on loopback.

    Args:
        plane: Where it is installed.
        folder: Where its kubeconfig, configuration and log go.
        webhook_host: Where the API server is told to look for its webhooks.
        source: The folder of the version of the program to run.
        settings: Sections of its Configuration that replace those that are shipped.
    """
    folder.mkdir()
    token = plane.kubectl("create", "token", ACCOUNT, f"--namespace={NAMESPACE}").strip()
    kubeconfig, config = folder / "kubeconfig", folder / "config.yaml"
    kubeconfig.write_text(json.dumps(plane.kubeconfig_for(token)))
    file = source / "config" / "manager" / "controller_manager_config.yaml"
    shipped = yaml.safe_load(file.read_text())
    webhook, health = find_own_ports(2)
    shipped["webhook"] = {"host": webhook_host, "port": webhook}
    shipped["health"] = {"healthProbeBindAddress": f"{HOST}:{health}"}
    shipped["metrics"] = {"bindAddress": "0"}
    # Outside of the cluster its Service would be one that only an administrator may make.
    shipped["featureGates"] = {"VisibilityOnDemand": False}
    config.write_text(yaml.safe_dump(shipped | settings))
    command = ("run", "--config", str(config), "--kubeconfig", str(kubeconfig))
    other = None if source == ROOT else source
    with running(*command, "--log-format=json", log=folder / "log", source=other) as process:
        yield process


@contextlib.contextmanager
def leader(
    plane: RealControlPlane, folder: Path, **settings: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a replica, from the moment on when its probe says that it is ready."""
    with manager(plane, folder, **settings) as process:
        wait_for_text(process, folder / "log", r'"event":"ready"')
        address = yaml.safe_load((folder / "config.yaml").read_text())["health"]
        url = f"http://{address['healthProbeBindAddress']}/readyz"
        until(lambda: answers(url), f"200 from {url}")
        yield process


def troubles(folder: Path) -> list[str]:
    """What a manager's log says beyond the normal course of things on a busy machine."""
    lines = (folder / "log").read_text().splitlines()
    usual = '"level":"info"', '"event":"slow webhook"'
    return [line for line in lines if not any(each in line for each in usual)]
