"""From an AdmissionCheck to the configuration of its requests. Pure reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from multiqueue.api.names import GROUP, PROVISIONING_REQUEST_CONTROLLER
from multiqueue.api.v1beta2 import AdmissionCheck
from multiqueue.api.v1beta2.admission_check import ProvisioningRequestConfig

CONFIG_KIND = "ProvisioningRequestConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFound:
    """What a check refers to.

    Attributes:
        config: None where it cannot be resolved.
        problem: Why, and what to do about it; empty where there is a configuration.
    """

    config: ProvisioningRequestConfig | None = None
    problem: str = ""


def is_provisioning(check: AdmissionCheck | None) -> bool:
    """Whether we are the controller of a check."""
    return check is not None and check.spec.controller_name == PROVISIONING_REQUEST_CONTROLLER


def config_name(check: AdmissionCheck) -> str:
    """Return the name of the configuration that a check refers to; empty where it does not."""
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
