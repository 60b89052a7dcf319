"""The configuration file of the manager: typed, with defaults, checked."""

from __future__ import annotations

from multiqueue.api.config.gates import Gate, Gates
from multiqueue.api.config.load import (
    ConfigurationError,
    build_configuration,
    load_configuration,
)
from multiqueue.api.config.types import (
    DENY,
    WARN,
    AdmissionFairSharing,
    ClientConnection,
    Configuration,
    FairSharing,
    Integrations,
    InternalCertManagement,
    LeaderElection,
    MultiKueue,
    RequeuingStrategy,
    Resources,
    Transformation,
    WaitForPodsReady,
    Webhook,
)
from multiqueue.api.durations import Duration, parse_duration

__all__ = [
    "DENY",
    "WARN",
    "AdmissionFairSharing",
    "ClientConnection",
    "Configuration",
    "ConfigurationError",
    "Duration",
    "FairSharing",
    "Gate",
    "Gates",
    "Integrations",
    "InternalCertManagement",
    "LeaderElection",
    "MultiKueue",
    "RequeuingStrategy",
    "Resources",
    "Transformation",
    "WaitForPodsReady",
    "Webhook",
    "build_configuration",
    "load_configuration",
    "parse_duration",
]
