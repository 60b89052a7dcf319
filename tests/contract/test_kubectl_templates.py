"""``-o jsonpath`` prints what kubectl prints; its generators need no cluster."""

from __future__ import annotations

import json
import subprocess

import pytest

from multiqueue.cli.templates import compile_template

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

MAKE = (
    *("kubectl", "create", "configmap", "x", "--from-literal=k=v", "--from-literal=a.b=w"),
    *("--dry-run=client", "-o"),
)


@pytest.mark.parametrize(
    "template",
    [
        "{.kind}: {.metadata.name}!",
        "{.data}",
        r"{.data.a\.b}",
        r"{.data['a\.b']}",
        "{.nothing}",
        "{.metadata.creationTimestamp}",
        "{..name}",
        "{$.kind}{@.kind}",
        r'{"\n\t"}x',
        "{range .data.k}<{@}>{end}",
        "{range .data}{@}{end}",
    ],
)
def test_a_template_prints_what_kubectl_prints(template: str) -> None:
    obj = subprocess.run([*MAKE, "json"], check=True, capture_output=True).stdout
    want = subprocess.run([*MAKE, f"jsonpath={template}"], check=True, capture_output=True).stdout
    assert compile_template(template)(json.loads(obj)) == want.decode()
