"""This program's commands, as an administrator runs them."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.e2e.fleet_under_test import Cluster


def run_command(cluster: Cluster, *arguments: str) -> str:
    """Return what a command prints.

    Raises:
        subprocess.CalledProcessError: It did not end with 0; a note has its words.
    """
    command = [sys.executable, "-m", "multiqueue", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    try:
        done.check_returncode()
    except subprocess.CalledProcessError as error:
        error.add_note(done.stdout + done.stderr)
        raise
    return done.stdout
