"""A user who makes a job every 200 ms and reads in both API versions, whatever is upgraded."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.controlplane.nodes import run_for
from tests.controlplane.plane import ADMIN_TOKEN, RealControlPlane

PAUSE_SECONDS = 0.2
TIMEOUT_SECONDS = 15
NAMESPACE, QUEUE = "flow", "flow"
CALL = "failed to call webhook|conversion webhook for"
CUT = re.compile(rf"({CALL}).*(broken pipe|connection reset by peer|: EOF)")
READ = (
    "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/old",
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/old",
    "/apis/kueue.x-k8s.io/v1beta1/workloadpriorityclasses/old",
    f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/localqueues/{QUEUE}",
)


@dataclass(slots=True)
class SteadyClient:
    """Makes jobs until it is ended; ``refused`` has what was not as it should be.

    Shape: ``cut`` counts requests whose webhook's connection ended while the API server wrote to
    it. The API server does not repeat such a request; a user does.
    """

    plane: RealControlPlane
    created: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    cut: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Make jobs until `end` is called."""
        turn = 0
        while not self._ended.wait(PAUSE_SECONDS):
            turn += 1
            job = self._ask(
                "POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", short_job(f"flow-{turn:04}")
            )
            if job is not None:
                self.created.append(job["metadata"]["uid"])
                if not job["spec"].get("suspend"):
                    self.refused.append(f"job {turn}: no webhook suspended it")
            self._ask("GET", READ[turn % len(READ)])

    def end(self) -> None:
        """Make no more jobs."""
        self._ended.set()

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:
        address = urlsplit(self.plane.url)
        context = ssl.create_default_context(cafile=str(self.plane.folder / "ca.crt"))
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=TIMEOUT_SECONDS, context=context
        )
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except OSError as error:
            self.refused.append(f"{method} {path}: {error!r}")
            return None
        finally:
            connection.close()
        if answer.status == http.HTTPStatus.INTERNAL_SERVER_ERROR and CUT.search(text):
            self.cut += 1
            return self._ask(method, path, body)
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            self.refused.append(f"{method} {path}: {answer.status} {text}")
            return None
        found: dict[str, Any] = json.loads(text)
        return found


@contextmanager
def steady_client(plane: RealControlPlane) -> Iterator[SteadyClient]:
    """Make jobs until the end of the block."""
    client = SteadyClient(plane)
    thread = threading.Thread(target=client.run, name="steady-client")
    thread.start()
    try:
        yield client
    finally:
        client.end()
        thread.join()


def short_job(name: str) -> dict[str, Any]:
    """A job of one pod that runs for a second; its author does not suspend it."""
    requests = {"requests": {"cpu": "1"}}
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "registry.example.com/short", "resources": requests}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": QUEUE}},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"annotations": run_for("1s")}, "spec": pod},
        },
    }
