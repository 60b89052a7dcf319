"""The front proxy's certificates, by which backends trust this server's user headers."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

import orjson

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.kube.certificates import KeyPair, create_authority, issue_client_certificate

CLIENT_NAME = "front-proxy-client"
NAMESPACE, CONFIG_MAP = "kube-system", "extension-apiserver-authentication"
_HEADERS = {
    "requestheader-allowed-names": [CLIENT_NAME],
    "requestheader-username-headers": ["X-Remote-User"],
    "requestheader-uid-headers": ["X-Remote-Uid"],
    "requestheader-group-headers": ["X-Remote-Group"],
    "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
}


def create_proxy_authority(now: datetime) -> KeyPair:
    """Make the authority of front proxy certificates; it must issue no others."""
    return create_authority("multiqueue-front-proxy-ca", now)


class FrontProxy:
    """The stored authority, and a client certificate of it that is new at every start."""

    def __init__(self, authority: KeyPair, now: datetime) -> None:
        self._authority = authority
        self.pair = issue_client_certificate(authority, CLIENT_NAME, (), now)

    def config_map(self) -> dict[str, Any]:
        """Return the ConfigMap from which extension API servers read the authority to trust."""
        data = {key: orjson.dumps(value).decode() for key, value in _HEADERS.items()}
        data["requestheader-client-ca-file"] = self._authority.certificate.decode()
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": data,
        }


def remote_headers(user: ApiUser) -> list[tuple[str, str]]:
    """Return the headers that name the user of a forwarded request."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", group) for group in user.groups]
    for key, values in user.extra:
        headers += [(f"X-Remote-Extra-{quote(key, safe='')}", value) for value in values]
    return headers
