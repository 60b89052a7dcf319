"""A manager that runs as its Deployment says: the part of a kubelet, for upstream Kueue and ours.

The pods of the Deployment stay unscheduled. Each has a finalizer, which is removed when the program
has ended, as a kubelet keeps a pod until its containers have ended.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.installed import NAMESPACE
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.ports import find_own_ports
from tests.controlplane.test_helm import installed_settings
from tests.controlplane.test_old_storage import behind_its_service, lead_to
from tests.controlplane.upstream import running_kueue

PAUSE_SECONDS = 0.5
FINALIZER = "tests.multiqueue.dev/running"
PODS = ("pods", f"--namespace={NAMESPACE}", "--selector=control-plane=controller-manager")
UPSTREAM_IMAGE = "kueue/kueue"


class Deployed:
    """Runs what the Deployment says; ``programs`` lists what was started, in order."""

    def __init__(self, plane: RealControlPlane, folder: Path) -> None:
        self.programs: list[str] = []
        self.failure: BaseException | None = None
        self._plane, self._folder = plane, folder
        self._ended = threading.Event()

    def run(self) -> None:
        """Follow the pods until `end` is called."""
        try:
            with ExitStack() as stack:
                self._follow(stack)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error

    def end(self) -> None:
        """End the program."""
        self._ended.set()

    def _follow(self, stack: ExitStack) -> None:
        running = ""
        while not self._ended.wait(PAUSE_SECONDS):
            pods = self._read_pods()
            images = {
                each["spec"]["containers"][0]["image"]
                for each in pods
                if "deletionTimestamp" not in each["metadata"]
            }
            if running and running not in images:
                stack.close()
                running = ""
            for pod in pods:
                is_ending = "deletionTimestamp" in pod["metadata"]
                if is_ending and pod["spec"]["containers"][0]["image"] != running:
                    self._keep(pod, [])
                elif not is_ending and not pod["metadata"].get("finalizers"):
                    self._keep(pod, [FINALIZER])
            if images and not running:
                (running,) = images
                stack.enter_context(self._start(running))

    def _start(self, image: str) -> AbstractContextManager[Any]:
        name = "upstream" if UPSTREAM_IMAGE in image else "ours"
        self.programs.append(name)
        folder = self._folder / f"{len(self.programs)}-{name}"
        settings = installed_settings(self._plane)
        if name == "ours":
            return behind_its_service(self._plane, folder, **settings)
        return _upstream(self._plane, folder, settings)

    def _read_pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            self._plane.kubectl("get", *PODS, "--output=json")
        )["items"]
        return found

    def _keep(self, pod: dict[str, Any], finalizers: list[str]) -> None:
        patch = json.dumps({"metadata": {"finalizers": finalizers}})
        where = pod["metadata"]["name"], f"--namespace={NAMESPACE}"
        self._plane.kubectl("patch", "pod", *where, "--type=merge", f"--patch={patch}")


@contextmanager
def _upstream(plane: RealControlPlane, folder: Path, settings: dict[str, Any]) -> Iterator[None]:
    (port,) = find_own_ports(1)
    webhook = {"host": "", "port": port, "certDir": str(folder / "certificates")}
    election = settings["leaderElection"] | {"resourceNamespace": NAMESPACE}
    frameworks = {"frameworks": ["batch/job"]}
    more = settings | {
        "webhook": webhook,
        "leaderElection": election,
        "integrations": settings["integrations"] | frameworks,
    }
    with running_kueue(plane, folder, more=yaml.safe_dump(more)):
        lead_to(plane, folder, port, ready=True)
        yield


@contextmanager
def deployed_manager(plane: RealControlPlane, folder: Path) -> Iterator[Deployed]:
    """Run the manager of the Deployment, whichever it is, until the end of the block."""
    deployed = Deployed(plane, folder)
    thread = threading.Thread(target=deployed.run, name="deployed")
    thread.start()
    try:
        yield deployed
    finally:
        deployed.end()
        thread.join()
    if deployed.failure is not None:
        raise deployed.failure
