"""What the audit of all writes on workers lets through; the scenarios run behind it."""

from __future__ import annotations

import orjson
import pytest

from multiqueue.kube.transport import ApiRequest
from tests.guarded_transport import is_guarded


@pytest.mark.parametrize(
    ("method", "body", "guarded"),
    [
        ("GET", None, True),
        ("POST", {"metadata": {"name": "n"}}, True),
        ("DELETE", None, False),
        ("DELETE", {"preconditions": {"resourceVersion": "1"}}, False),
        ("DELETE", {"preconditions": {"uid": "u"}}, True),
        ("PATCH", {"status": {}}, False),
        ("PATCH", {"metadata": {"resourceVersion": "7"}}, True),
    ],
)
def test_writes_name_the_object_that_they_were_decided_on(method, body, guarded):
    raw = orjson.dumps(body) if body is not None else None
    request = ApiRequest(method=method, target="/t", what="w", timeout=1.0, body=raw)
    assert is_guarded(request) is guarded
