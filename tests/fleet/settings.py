"""How the programs of a run are configured."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from multiqueue.api import names
from multiqueue.api.config import Configuration, Integrations
from tests.fleet.kinds import ROWS
from tests.fleet.plan import Plan
from tests.multikueue_world import make_config

DISPATCHERS = {
    "all": names.DISPATCHER_ALL_AT_ONCE,
    "score": "score",
    "incremental": names.DISPATCHER_INCREMENTAL,
    "external": "external",
}
GATES = {"MultiKueueOrchestratedPreemption": True}


def manager_config(plan: Plan) -> Configuration:
    """Return the configuration of the managers."""
    rounds = {"stepSize": plan.step, "roundTime": f"{plan.round_seconds:g}s"}
    config = make_config(
        worker_lost_timeout=timedelta(seconds=plan.lost_timeout),
        gc_interval=timedelta(seconds=plan.gc_interval),
        dispatcher_name=DISPATCHERS[plan.dispatcher],
        dispatcher_arguments=rounds if plan.dispatcher == "incremental" else {},
    )
    return _complete(config, plan)


def worker_config(plan: Plan) -> Configuration:
    """Return the configuration of the workers' own controllers."""
    return _complete(make_config(), plan)


def _complete(config: Configuration, plan: Plan) -> Configuration:
    frameworks = tuple(ROWS[kind].framework for kind in sorted(plan.kinds))
    return msgspec.structs.replace(
        config,
        integrations=Integrations(frameworks=frameworks),
        feature_gates=GATES if plan.gated else config.feature_gates,
    )
