"""The definitions of our kinds: an API server must take them as they are shipped."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.client import Api

FOLDER = Path(__file__).parents[2] / "config" / "crd"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


DEFINITIONS = [
    yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("kueue.x-k8s.io_*.yaml"))
]


@pytest.mark.parametrize("given", DEFINITIONS, ids=lambda given: given["spec"]["names"]["plural"])
async def test_the_definition_is_accepted(api: Api, given: dict[str, Any]) -> None:
    definition = copy.deepcopy(given)
    name = definition["metadata"]["name"]
    if (present := await api.send("GET", f"{CRDS}/{name}")).status == 200:
        definition["metadata"] |= {"resourceVersion": present.body["metadata"]["resourceVersion"]}
        sent = ("PUT", f"{CRDS}/{name}")
    else:
        sent = ("POST", CRDS)
    answer = await api.send(*sent, definition, dryRun="All", fieldValidation="Strict")
    assert answer.status in (200, 201), answer.text
    assert not answer.warnings
