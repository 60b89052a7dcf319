"""A training that saves its work when it is told that it will be stopped, and when it is stopped.

It counts steps in place of learning. ``walk/2-training.yaml`` runs it as a Job. Environment:
CHECKPOINT is the file for its work, ANNOTATIONS the file with the annotations of its pod
(/etc/told/annotations), STEPS how many steps it makes, STEP_SECONDS how long each takes, and
JOB_NAME its Job, which it tells when it saved, by the service account in the folder ACCOUNT.
Without one it only prints that. With HOOK_PORT it also listens there, on HOOK_ADDRESS if given: a
Service with that port can be the Job's multiqueue.dev/checkpoint-hook, which is told at once.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

TOLD = "multiqueue.dev/checkpoint-by"
SAVED = "multiqueue.dev/last-checkpoint"
ACCOUNT = Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint.json"))
ANNOTATIONS = Path(os.environ.get("ANNOTATIONS", "/etc/told/annotations"))
STEPS = int(os.environ.get("STEPS", "100000"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "1"))
HOOK_ADDRESS = os.environ.get("HOOK_ADDRESS", "")
HOOK_PORT = int(os.environ.get("HOOK_PORT", "0"))

stopping = threading.Event()


class Hook(BaseHTTPRequestHandler):
    """Is told what the annotation says, but a minute or two earlier."""

    told = ""

    def do_POST(self) -> None:
        """Note by when to save the work."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        Hook.told = str(json.loads(body)["checkpointBy"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing: that it saves is printed."""


def read_notice() -> str:
    """Return by when to save the work, as the newest notice says; "" if nobody said so."""
    found = Hook.told
    if ANNOTATIONS.exists():
        for line in ANNOTATIONS.read_text().splitlines():
            name, _, value = line.partition("=")
            if name == TOLD:
                found = max(found, str(json.loads(value)))  # the kubelet writes values in quotes
    return found


def save(step: int) -> None:
    """Write the checkpoint as a whole or not at all, then say when."""
    partial = CHECKPOINT.with_suffix(".new")
    partial.write_text(json.dumps({"step": step}))
    partial.replace(CHECKPOINT)
    report(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def report(moment: str) -> None:
    """Write into the annotation of the Job when its work was saved."""
    print(f"saved at {moment}", flush=True)
    if not ACCOUNT.exists():
        return
    namespace = (ACCOUNT / "namespace").read_text()
    server = "https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}".format(**os.environ)
    request = urllib.request.Request(
        f"{server}/apis/batch/v1/namespaces/{namespace}/jobs/{os.environ['JOB_NAME']}",
        method="PATCH",
        data=json.dumps({"metadata": {"annotations": {SAVED: moment}}}).encode(),
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
            "Content-Type": "application/merge-patch+json",
        },
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        urllib.request.urlopen(request, context=trust, timeout=10).close()
    except OSError as error:  # it is stopped a little later then, and goes on from the same step
        print(f"not reported: {error}", file=sys.stderr, flush=True)


def main() -> int:
    """Train from the last checkpoint on."""
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    if HOOK_PORT:
        hook = HTTPServer((HOOK_ADDRESS, HOOK_PORT), Hook)
        threading.Thread(target=hook.serve_forever, daemon=True).start()
    step = json.loads(CHECKPOINT.read_text())["step"] if CHECKPOINT.exists() else 0
    print(f"begins at step {step}", flush=True)
    answered = ""
    while step < STEPS:
        if stopping.wait(STEP_SECONDS):
            save(step)
            return 143
        step += 1
        told = read_notice()
        if told and told != answered:
            save(step)
            answered = told
    save(step)
    return 0


if __name__ == "__main__":
    sys.exit(main())
