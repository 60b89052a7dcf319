"""Programs that give credentials for ClusterProfiles, as the configuration names them (M-215)."""

from __future__ import annotations

import pytest

from multiqueue.api.config import Configuration, ConfigurationError, load_configuration

VERSION = "client.authentication.k8s.io/v1"


def load_providers(**lists: str) -> Configuration:
    """Load a configuration with such lists of providers, in flow style."""
    sections = "".join(f"    {name}: [{entry}]\n" for name, entry in lists.items())
    header = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    return load_configuration(f"{header}multiKueue:\n  clusterProfile:\n{sections}")


def make_provider(
    name: str = "fleet",
    command: str = "plugin",
    version: str = VERSION,
    mode: str = "Never",
    env: str = "TOKEN",
) -> str:
    config = (
        f"command: {command!r}, apiVersion: {version!r}, interactiveMode: {mode!r}, "
        f"env: [{{name: {env!r}, value: x}}]"
    )
    return f"{{name: {name!r}, execConfig: {{{config}}}}}"


@pytest.mark.parametrize("field", ["accessProviders", "credentialsProviders"])
def test_a_list_of_providers_is_taken_under_either_name(field: str) -> None:
    """T-568, T-569, T-573."""
    section = load_providers(**{field: make_provider()}).multi_kueue.cluster_profile
    assert section is not None
    (provider,) = section.access_providers or section.credentials_providers
    assert (provider.name, provider.exec_config.command) == ("fleet", "plugin")


def test_both_names_at_once_are_refused() -> None:
    """T-570."""
    with pytest.raises(ConfigurationError, match="credentialsProviders is the old name"):
        load_providers(accessProviders=make_provider(), credentialsProviders=make_provider())


@pytest.mark.parametrize("field", ["accessProviders", "credentialsProviders"])
@pytest.mark.parametrize(
    ("provider", "where"),
    [
        (make_provider(name=""), ": name and execConfig.command are required"),
        (make_provider(command=""), ": name and execConfig.command are required"),
        (make_provider(version=""), '.execConfig.apiVersion: "" is none of'),
        (make_provider(version=f"{VERSION}9"), '.execConfig.apiVersion: "client.auth'),
        (make_provider(env=""), ".execConfig.env: each variable needs a name"),
        (make_provider(mode=""), '.execConfig.interactiveMode: "" is none of'),
        (make_provider(mode="Sometimes"), '.execConfig.interactiveMode: "Sometimes" is none of'),
    ],
)
def test_a_provider_that_could_not_be_run_is_refused(field: str, provider: str, where: str) -> None:
    """T-562 to T-567, T-571."""
    with pytest.raises(ConfigurationError) as caught:
        load_providers(**{field: provider})
    (error,) = caught.value.errors
    assert error.startswith(f"multiKueue.clusterProfile.{field}[0]{where}")
