"""A real control plane on loopback: etcd, kube-apiserver, and the controllers if wanted.

Everything it writes lies in one folder; everything it starts ends with it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from multiqueue.kube.certificates import (
    KeyPair,
    create_authority,
    issue_certificate,
    issue_client_certificate,
)
from tests.controlplane import binaries
from tests.controlplane.audit import AUDIT_LOG
from tests.controlplane.polling import until
from tests.controlplane.ports import find_own_ports

HOST = "127.0.0.1"
READY_SECONDS = 90
STOP_SECONDS = 15
ADMIN_TOKEN, CONTROLLERS_TOKEN = "the-administrators-token", "the-controllers-token"
"""Loopback only, for the life of one test."""
CONTROLLERS = (
    "clusterrole-aggregation",
    "cronjob",
    "deployment",
    "disruption",
    "endpoints",
    "endpointslice",
    "garbage-collector",
    "job",
    "namespace",
    "pod-garbage-collector",
    "replicaset",
    "resourcequota",
    "serviceaccount",
    "serviceaccount-token",
    "statefulset",
)


@dataclass(slots=True)
class RealControlPlane:
    """One real control plane; ``with RealControlPlane(folder) as plane`` starts and ends it."""

    folder: Path
    controllers: bool = True
    """With kube-controller-manager: garbage collection, namespaces, Jobs, service accounts ..."""
    extra_arguments: Sequence[str] = ()
    """More flags of kube-apiserver."""
    url: str = ""
    etcd_url: str = ""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """By name of the program, in the order in which they were started."""
    outages: list[tuple[datetime, datetime]] = field(default_factory=list)
    """From when to when it was not ready; a server that starts refuses what it will allow."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            if process.poll() is None:
                process.kill()
                process.wait(STOP_SECONDS)
        self._processes.clear()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    def kubeconfig_for(self, token: str) -> dict[str, Any]:
        """A kubeconfig for whoever has this bearer token."""
        authority = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "real",
            "clusters": [
                {
                    "name": "real",
                    "cluster": {"server": self.url, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "user"}}],
        }

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator; answers what it prints.

        Raises:
            subprocess.CalledProcessError: It failed; ``stderr`` says why.
        """
        done = subprocess.run(
            [str(binaries.get("kubectl")), "--kubeconfig", str(self.kubeconfig), *arguments],
            check=False,
            capture_output=True,
            text=True,
            input=stdin,
        )
        try:
            done.check_returncode()
        except subprocess.CalledProcessError as error:
            error.add_note(done.stderr)
            raise
        return done.stdout

    def wait_until_served(self) -> None:
        """Wait until all CRDs are served. ``kubectl wait`` fails if one has no condition yet."""
        each = '{range .items[*]}{.status.conditions}{"\\n"}{end}'

        def are_established() -> bool:
            lines = self.kubectl("get", "crd", f"--output=jsonpath={each}").splitlines()
            found = [json.loads(line) if line.startswith("[") else [] for line in lines]
            return all(
                any((at["type"], at["status"]) == ("Established", "True") for at in conditions)
                for conditions in found
            )

        until(are_established, "CRDs that are served")

    def run(self, name: str, arguments: Sequence[str]) -> None:
        """Start a program that ends with the control plane; its log lies in the folder."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(binaries.get(name)), *arguments], stdout=log, stderr=subprocess.STDOUT
            )

    def pid_of(self, name: str) -> int:
        """The process of one of its programs."""
        return self._processes[name].pid

    def read_audit_log(self) -> str:
        """What `tests.controlplane.audit` had kube-apiserver write down."""
        return (self.folder / AUDIT_LOG).read_text()

    @contextlib.contextmanager
    def stopped_apiserver(self) -> Iterator[None]:
        """Stop kube-apiserver as a machine that hangs: connections stay, and nothing answers."""
        process = self._processes["kube-apiserver"]
        began = datetime.now(UTC)
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)
            self.outages.append((began, datetime.now(UTC)))

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Kill kube-apiserver and etcd; they are back, on the same ports, after the block."""
        began = datetime.now(UTC)
        killed = {name: self._processes[name] for name in ("etcd", "kube-apiserver")}
        for process in killed.values():
            process.kill()
            process.wait(STOP_SECONDS)
        try:
            yield
        finally:
            for name, process in killed.items():
                assert isinstance(process.args, list)
                self.run(name, process.args[1:])
            self._wait_until_ready()
            self.outages.append((began, datetime.now(UTC)))

    # ------------------------------------------------------------------ start
    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_secrets()
        etcd_port, peer_port, port, controllers_port = find_own_ports(4)
        self.etcd_url = f"http://{HOST}:{etcd_port}"
        self.run("etcd", self._etcd_arguments(self.etcd_url, f"http://{HOST}:{peer_port}"))
        self.url = f"https://{HOST}:{port}"
        self.run("kube-apiserver", self._apiserver_arguments(self.etcd_url, port))
        for name, token in (("kubeconfig", ADMIN_TOKEN), ("controllers", CONTROLLERS_TOKEN)):
            (self.folder / name).write_text(json.dumps(self.kubeconfig_for(token)))
        self._wait_until_ready()
        if self.controllers:
            self.run("kube-controller-manager", self._controllers_arguments(controllers_port))

    def _write_secrets(self) -> None:
        now = datetime.now(UTC)
        authority = create_authority("real-control-plane", now)
        proxy_authority = create_authority("real-front-proxy", now)
        self._write_pair("ca", authority)
        self._write_pair("server", issue_certificate(authority, "kube-apiserver", [HOST], now))
        self._write_pair("proxy-ca", proxy_authority)
        self._write_pair(
            "proxy", issue_client_certificate(proxy_authority, "front-proxy-client", (), now)
        )
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._write("service-accounts.key", private)
        self._write("service-accounts.pub", public)
        users = (
            f"{ADMIN_TOKEN},admin,admin,system:masters\n"
            f"{CONTROLLERS_TOKEN},system:kube-controller-manager,controllers,system:masters\n"
        )
        self._write("tokens.csv", users.encode())

    def _write_pair(self, name: str, pair: KeyPair) -> None:
        self._write(f"{name}.crt", pair.certificate)
        self._write(f"{name}.key", pair.key)

    def _write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)

    def _etcd_arguments(self, client_url: str, peer_url: str) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client_url}",
            f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
        ]

    def _apiserver_arguments(self, etcd: str, port: int) -> list[str]:
        file = self.folder.joinpath
        return [
            f"--etcd-servers={etcd}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            "--endpoint-reconciler-type=none",
            f"--secure-port={port}",
            f"--tls-cert-file={file('server.crt')}",
            f"--tls-private-key-file={file('server.key')}",
            f"--client-ca-file={file('ca.crt')}",
            f"--token-auth-file={file('tokens.csv')}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--service-account-issuer={self.url}",
            f"--service-account-key-file={file('service-accounts.pub')}",
            f"--service-account-signing-key-file={file('service-accounts.key')}",
            f"--requestheader-client-ca-file={file('proxy-ca.crt')}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={file('proxy.crt')}",
            f"--proxy-client-key-file={file('proxy.key')}",
            # Pods may be made the moment their namespace is there, and nodes are taken at their
            # word (nothing here would untaint them), as with the embedded server.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            *self.extra_arguments,
        ]

    def _controllers_arguments(self, port: int) -> list[str]:
        file = self.folder.joinpath
        return [
            f"--kubeconfig={file('controllers')}",
            f"--authentication-kubeconfig={file('controllers')}",
            f"--authorization-kubeconfig={file('controllers')}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--cert-dir={file('controllers-certificates')}",
            f"--root-ca-file={file('ca.crt')}",
            f"--service-account-private-key-file={file('service-accounts.key')}",
            "--leader-elect=false",
            f"--controllers={','.join(f'{name}-controller' for name in CONTROLLERS)}",
        ]

    def _wait_until_ready(self) -> None:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                if _is_ready(f"{self.url}/readyz", context):
                    return
            for process in self._processes.values():
                if process.poll() is not None:
                    raise RuntimeError(self._failure("ended"))
            time.sleep(0.1)
        raise TimeoutError(self._failure(f"not ready within {READY_SECONDS} s"))

    def _failure(self, what: str) -> str:
        logs = [
            f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
            for path in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join([f"control plane in {self.folder}: {what}", *logs])


def _is_ready(url: str, context: ssl.SSLContext) -> bool:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
    with urllib.request.urlopen(request, timeout=5, context=context) as answer:
        return bool(answer.status == 200)
