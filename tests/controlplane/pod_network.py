"""The network of pods, as a real kube-apiserver reaches it: through a proxy on a Unix socket."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

HOST = "127.0.0.1"
CONFIG = """
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds: {{udsName: {path}}}
"""


@contextlib.contextmanager
def pod_network(pods: dict[str, int]) -> Iterator[str]:
    """Serve the network while the block runs; yield kube-apiserver's flag for it.

    Args:
        pods: Which port of this machine stands for an address of a pod, ``192.0.2.10:8080``.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            host, _, asked = self.path.rpartition(":")
            port = int(asked) if host == HOST else pods.get(self.path)  # webhooks are on loopback
            if port is None:  # an aggregated API without pods
                with contextlib.suppress(OSError):
                    self.send_error(502)
                return
            with socket.create_connection((HOST, port)) as pod:
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                answers = threading.Thread(target=_pass_on, args=(pod, self.connection))
                answers.start()
                _pass_on(self.connection, pod)
                answers.join()

        def log_message(self, *_: object) -> None:
            pass

    # Paths of Unix sockets have to be short.
    with tempfile.TemporaryDirectory(prefix="pods-") as folder:
        path, config = Path(folder, "socket"), Path(folder, "egress.yaml")
        config.write_text(CONFIG.format(path=path))
        with ThreadingUnixStreamServer(str(path), Handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"--egress-selector-config-file={config}"
            finally:
                server.shutdown()
                thread.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
