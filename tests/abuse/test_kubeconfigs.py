"""Kubeconfigs that a worker's owner writes."""

from __future__ import annotations

from tests.abuse.fleet import Fleet


async def test_garbage_is_refused_with_a_reason(fleet: Fleet) -> None:
    async with fleet.registered(b"\xff\xfe: [") as worker:
        refusal = await fleet.refusal(worker)
        assert "not valid YAML" in refusal["message"]
