"""Server-side apply on its way through admission webhooks."""

from tests.contract.client import Api, config_map, expect
from tests.contract.managed_fields import applied, apply, fields_of, managers
from tests.contract.test_admission_webhooks import Registrar, hooks, label, register
from tests.contract.webhook_server import WebhookServer, json_patch

__all__ = ["hooks", "register"]


async def test_webhooks_see_an_apply_as_a_create_or_an_update(
    api: Api,
    hooks: WebhookServer,
    register: Registrar,
    config_maps: str,
) -> None:
    hooks.answers["/hook"] = label("seen")
    await register.add("mutating")
    await register.until_asked()
    path = f"{config_maps}/a"
    made = await applied(api, path, config_map("a", {"x": "1"}), manager="one")
    await applied(api, path, config_map("a", {"x": "2"}), manager="one")
    create, update = [each for each in hooks.requests if each["name"] == "a"]
    assert (create["operation"], update["operation"]) == ("CREATE", "UPDATE")
    assert create["options"]["fieldManager"] == update["options"]["fieldManager"] == "one"
    assert managers(create["object"]) == {("one", "Apply", "")}
    assert update["oldObject"] == made
    assert made["metadata"]["labels"] == {"seen": "yes"}
    assert fields_of(made, "one") == {"f:data": {"f:x": {}}}


async def test_invalid_owners_of_a_webhook_are_told_and_not_taken(
    api: Api,
    hooks: WebhookServer,
    register: Registrar,
    config_maps: str,
) -> None:
    wrong = [{"manager": "x", "operation": "Frobnicate", "apiVersion": "v1"}]
    patch = {"op": "add", "path": "/metadata/managedFields", "value": wrong}
    hooks.answers["/hook"] = lambda _request: json_patch(patch)
    await register.add("mutating")
    await register.until_asked()
    answer = await apply(api, f"{config_maps}/a", config_map("a", {"x": "1"}), manager="one")
    assert managers(expect(answer, 201)) == {("one", "Apply", "")}
    assert "managedFields was in an invalid state after admission" in answer.warnings[0]
