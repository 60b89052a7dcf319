"""Finds the configuration of an AdmissionCheck's requests. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from multiqueue.api.names import GROUP, PROVISIONING_REQUEST_CONTROLLER
from multiqueue.api.v1beta2 import AdmissionCheck
from multiqueue.api.v1beta2.admission_check import ProvisioningRequestConfig

CONFIG_KIND = "ProvisioningRequestConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFound:
    """The configuration that a check refers to.

    Attributes:
        config: The configuration; None if it cannot be resolved.
        problem: Why it cannot be resolved, and what to do; empty if there is a configuration.
    """

    config: ProvisioningRequestConfig | None = None
    problem: str = ""


def is_provisioning(check: AdmissionCheck | None) -> bool:
    """Whether the provisioning controller is the controller of a check."""
    return check is not None and check.spec.controller_name == PROVISIONING_REQUEST_CONTROLLER


def config_name(check: AdmissionCheck) -> str:
    """Return the name of the configuration that a check refers to; empty if there is none."""
    parameters = check.spec.parameters
    if parameters is None or (parameters.api_group, parameters.kind) != (GROUP, CONFIG_KIND):
        return ""
    return parameters.name


def find_config(
    check: AdmissionCheck, get: Callable[[str], ProvisioningRequestConfig | None]
) -> ConfigFound:
    """Follow a check to its configuration."""
    parameters = check.spec.parameters
    if parameters is None:
        return ConfigFound(
            problem=f"spec.parameters is not set; refer to a {CONFIG_KIND} of {GROUP}"
        )
    name = config_name(check)
    if not name:
        return ConfigFound(
            problem=f"spec.parameters refers to {parameters.kind}.{parameters.api_group} "
            f'"{parameters.name}"; refer to a {CONFIG_KIND} of {GROUP}'
        )
    config = get(name)
    if config is None:
        return ConfigFound(
            problem=f'{CONFIG_KIND} "{name}" not found; create it, or change spec.parameters.name'
        )
    if not config.spec.provisioning_class_name:
        return ConfigFound(problem=f'{CONFIG_KIND} "{name}": spec.provisioningClassName is empty')
    return ConfigFound(config=config)
