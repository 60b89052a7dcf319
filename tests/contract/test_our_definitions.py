"""The definitions of our kinds: an API server must take them as they are shipped."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.client import Api

FOLDER = Path(__file__).parents[2] / "config" / "crd"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


TEXTS = [
    pytest.param(path.read_text(), id=path.stem.partition("_")[2])
    for path in sorted(FOLDER.glob("kueue.x-k8s.io_*.yaml"))
]


@pytest.mark.parametrize("text", TEXTS)
async def test_the_definition_is_accepted(api: Api, text: str) -> None:
    definition: dict[str, Any] = yaml.safe_load(text)
    name = definition["metadata"]["name"]
    if (present := await api.send("GET", f"{CRDS}/{name}")).status == 200:
        definition["metadata"] |= {"resourceVersion": present.body["metadata"]["resourceVersion"]}
        sent = ("PUT", f"{CRDS}/{name}")
    else:
        sent = ("POST", CRDS)
    answer = await api.send(*sent, definition, dryRun="All", fieldValidation="Strict")
    assert answer.status in (200, 201), answer.text
    assert not answer.warnings
