"""The arguments that the manager's configuration sets for a dispatcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.api.config.gates import Gate
from multiqueue.api.names import DISPATCHER_INCREMENTAL, INCREMENTAL


def build_arguments(config: Configuration, dispatcher: str) -> Mapping[str, Any]:
    """Return the arguments of a dispatcher named by the configuration or a MultiKueueConfig."""
    own = build_section_arguments(config, dispatcher)
    return {**own, **config.multi_kueue.dispatcher_arguments}


def build_section_arguments(config: Configuration, dispatcher: str) -> Mapping[str, Any]:
    """Return the arguments that apply wherever a dispatcher is named, also in profiles.

    As in upstream, the incremental dispatcher has its own section and gates (M-111, M-112).
    """
    section, gates = config.multi_kueue, config.gates
    arguments: dict[str, Any] = {}
    if dispatcher in {DISPATCHER_INCREMENTAL, INCREMENTAL}:
        settings = section.incremental_dispatcher_config
        if settings is not None and gates.enabled(Gate.MULTIKUEUE_INCREMENTAL_DISPATCHER_CONFIG):
            arguments["stepSize"] = settings.step_size
        if not gates.enabled(Gate.MULTIKUEUE_INCREMENTAL_DISPATCHER_RESPECT_CONFIG_ORDER):
            arguments["order"] = "Name"
    return arguments
