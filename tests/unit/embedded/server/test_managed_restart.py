"""Owners of fields across a restart, and objects that were kept before there were any."""

from pathlib import Path

from tests.contract.client import config_map
from tests.contract.managed_fields import applied, apply, managers
from tests.unit.embedded.server.test_restart import CONFIG_MAPS, Running


async def test_owners_survive_a_restart(tmp_path: Path) -> None:
    path = f"{CONFIG_MAPS}/a"
    async with Running(tmp_path) as api:
        await applied(api, path, config_map("a", {"x": "1"}), manager="one")
        shown = await applied(api, path, config_map("a", {"x": "1", "y": "1"}), manager="two")
    async with Running(tmp_path) as api:
        assert await api.get(path) == shown
        refused = await apply(api, path, config_map("a", {"x": "2"}), manager="two")
        assert refused.body["message"] == (
            'Apply failed with 1 conflict: conflict with "one": .data.x'
        )


async def test_objects_kept_without_owners_can_be_applied(tmp_path: Path) -> None:
    path = f"{CONFIG_MAPS}/a"
    async with Running(tmp_path) as api:
        await api.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
        await api.merge(path, {"metadata": {"managedFields": [{}]}})
    async with Running(tmp_path) as api:
        taken = await applied(api, path, config_map("a", {"y": "1"}), manager="one")
    found = {("one", "Apply", ""), ("before-first-apply", "Update", "")}
    assert managers(taken) == found
