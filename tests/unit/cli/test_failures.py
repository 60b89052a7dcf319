"""What failed requests and unusable kubeconfigs say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from multiqueue.cli.connect import ClusterTarget, load_credentials
from multiqueue.cli.connection_flags import ConnectionFlags
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.failures import explain_failure
from multiqueue.cli.manifests import check_namespace, read_manifests
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import Forbidden, KubeError, NotFound, TlsError, Unauthorized

SERVER = "https://a:6443"
TARGET = ClusterTarget(kubeconfig=None, context=None)
MISSING = {"name": "x", "group": "kueue.x-k8s.io", "kind": "localqueues"}


def told(error: KubeError, target: ClusterTarget = TARGET) -> str:
    return str(explain_failure(error, target, Credentials.static(SERVER)))


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (
            NotFound(
                404, message='localqueues "x" not found', details=MISSING, request='GET "a/x"'
            ),
            'localqueues "x" not found; "kubectl get localqueues.kueue.x-k8s.io -A" lists',
        ),
        (
            NotFound(404, message="404 page not found", request="GET topologies"),
            f"the cluster at {SERVER} does not serve this: GET topologies",
        ),
        (Forbidden(403, message="bob may not"), "not allowed: bob may not"),
        (TlsError("GET x: TLS: no"), "Its CA is that of the kubeconfig, or of --certificate-auth"),
        (Unauthorized(401), "does not accept the login of the kubeconfig (401 Unauthorized)"),
    ],
)
def test_a_failed_request_says_what_to_do(error: KubeError, want: str) -> None:
    assert want in told(error)


def test_a_refused_token_is_named_by_its_option_and_end() -> None:
    target = replace(TARGET, flags=ConnectionFlags(user={"token": "t"}))
    assert (
        "does not accept --token (401 Unauthorized): it is wrong or has expired; sign in again"
        in (told(Unauthorized(401), target))
    )
    credentials = Credentials.static(SERVER)
    ended = datetime(2026, 1, 1, tzinfo=UTC)
    credentials.material = replace(credentials.material, expires_at=ended)
    found = explain_failure(Unauthorized(401), target, credentials)
    assert found.code is ExitCode.UNREACHABLE
    assert "--token (401 Unauthorized): its token expired at 2026-01-01T00:00:00Z; " in str(found)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("apiVersion: batch/v1\nkind: Job\n", "is no kubeconfig: its kind is Job"),
        ("kind: [Config]\n", "is no kubeconfig: its kind is no text"),
        ("just text", "is empty or not a mapping"),
        ("kind: Config\n", "has no current-context; set one, or name a context"),
        (
            "current-context: x\ncontexts: [{name: a, context: {}}, {name: b, context: {}}]\n",
            'no context "x" in contexts; there are: a, b',
        ),
    ],
)
async def test_an_unusable_kubeconfig_is_named(text: str, want: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(UsageProblem) as caught:
        await load_credentials(ClusterTarget(kubeconfig=str(path), context=None))
    assert str(caught.value).startswith(f'kubeconfig "{path}"')
    assert want in str(caught.value)


async def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="is a folder; name a file in it"):
        await load_credentials(ClusterTarget(kubeconfig=str(tmp_path), context=None))


def test_a_manifest_is_for_the_namespace_that_was_named() -> None:
    manifest = {"kind": "Job", "metadata": {"name": "train", "namespace": "a"}}
    check_namespace(manifest, None)
    check_namespace(manifest, "a")
    check_namespace({"kind": "Job", "metadata": {"name": "train"}}, "b")
    with pytest.raises(UsageProblem) as caught:
        check_namespace(manifest, "b")
    assert str(caught.value) == (
        'Job "train": its metadata.namespace is "a", and --namespace is "b"; leave out one of them'
    )


def test_a_manifest_has_metadata(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("apiVersion: batch/v1\nkind: Job\nmetadata: train\n")
    with pytest.raises(UsageProblem, match="document 1: metadata is no mapping"):
        read_manifests(str(tmp_path / "job.yaml"))
