"""Which job kinds a manager knows."""

from __future__ import annotations

import pytest

from multiqueue.api.config import Configuration, Integrations
from multiqueue.api.job_kinds import JOB_KINDS, KnownKind
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.registry import IntegrationRegistry
from multiqueue.jobs.setup import UnknownFrameworkError, build_registry, load_kind

ROWS = {row.kind: row for row in JOB_KINDS}


def test_batch_jobs_are_known_by_name_and_kind() -> None:
    registry = build_registry(Configuration())
    job = registry.find("batch/job")
    assert job is not None
    assert registry.find_by_gvk(GroupVersionKind("batch", "v1", "Job")) is job
    assert registry.find_by_gvk(GroupVersionKind("batch", "v1beta1", "Job")) is job
    assert registry.find_by_gvk(GroupVersionKind("apps", "v1", "Deployment")) is None
    assert registry.find_adapter(GroupVersionKind("batch", "v1", "Job")) is not None


def test_an_unknown_kind_is_named_with_those_that_are_known() -> None:
    config = Configuration(integrations=Integrations(frameworks=("batch/job", "x/y")))
    with pytest.raises(UnknownFrameworkError, match='"x/y" is not supported; known are: batch'):
        build_registry(config)


def test_two_integrations_for_a_kind_are_a_mistake() -> None:
    """M-131."""
    job = load_kind(ROWS["Job"])
    with pytest.raises(ValueError, match="two integrations for batch/v1, Kind=Job"):
        IntegrationRegistry([job, job])


@pytest.mark.parametrize("row", [row for row in JOB_KINDS if row.folder], ids=lambda row: row.kind)
def test_each_folder_has_what_its_row_says(row: KnownKind) -> None:
    kind = load_kind(row)
    assert kind.integration.name == row.framework
    assert kind.integration.gvk == GroupVersionKind(row.group, row.version, row.kind)
    assert kind.integration.resource.plural == row.plural
    assert kind.adapter is None or kind.adapter.gvk == kind.integration.gvk


def test_kinds_are_written_as_annotations_have_them() -> None:
    kind = GroupVersionKind.of("batch/v1", "Job")
    assert (str(kind), kind.api_version) == ("batch/v1, Kind=Job", "batch/v1")
    assert GroupVersionKind.of("v1", "Pod") == GroupVersionKind("", "v1", "Pod")
