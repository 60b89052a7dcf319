"""Assembles the ProvisioningRequest admission check."""

from __future__ import annotations

import random

from multiqueue.controllers.provisioning.check_controller import ProvisioningCheckController
from multiqueue.controllers.provisioning.controller import ProvisioningController
from multiqueue.controllers.provisioning.watch import RequestWatch
from multiqueue.jobs.context import ManagerContext, Runnable


def build_provisioning(context: ManagerContext) -> list[Runnable]:
    """Return what has to run while this manager leads."""
    watch = RequestWatch(context)
    return [
        watch,
        ProvisioningCheckController(context, watch),
        ProvisioningController(context, watch, jitter=random.random),
    ]
