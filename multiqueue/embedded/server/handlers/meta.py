"""Handlers of requests that are not about objects: discovery, OpenAPI, version, health."""

from collections.abc import Mapping

import orjson
from aiohttp import web

from multiqueue.embedded.server.aggregation.aggregator import Aggregator
from multiqueue.embedded.server.discovery import discovery, openapi, openapi_protobuf
from multiqueue.embedded.server.kinds import JsonObject, Registry

HEALTH_CHECKS = ("ping", "poststarthook/crd-informer-synced")
JSON = "application/json"


class MetaHandlers:
    """Answers from what is served, not from what is stored."""

    def __init__(self, registry: Registry, aggregator: Aggregator) -> None:
        self._registry = registry
        self._aggregator = aggregator

    def answer(
        self, path: str, http: web.BaseRequest, query: Mapping[str, str]
    ) -> web.Response | None:
        """The answer at a path; None: nothing is there."""
        parts = path.strip("/").split("/")
        match parts:
            case ["healthz" | "readyz" | "livez" as name, *checks]:
                return self._health(name, checks, query)
            case ["version"]:
                return _json(discovery.server_version())
            case ["openapi", *rest]:
                return self._openapi(rest, http, query)
            case ["api" | "apis", *_]:
                return self._discovery(parts, http)
        return None

    def _discovery(self, parts: list[str], http: web.BaseRequest) -> web.Response | None:
        registry = self._registry
        match parts:
            case ["api" | "apis" as root]:
                version = discovery.aggregated_version(http.headers.get("Accept", ""))
                if version is not None:
                    document = discovery.aggregated(registry, core=root == "api", version=version)
                    if root == "apis":
                        document["items"] = self._aggregator.add_discovery(document["items"])
                    return _json(document, content_type=discovery.content_type(version))
                legacy = discovery.api_versions() if root == "api" else self._group_list()
                return _json(legacy)
            case ["api", version]:
                return _json(discovery.api_resource_list(registry, "", version))
            case ["apis", group]:
                return _json(self._group(group))
            case ["apis", group, version]:
                return _json(discovery.api_resource_list(registry, group, version))
        return None

    def _group_list(self) -> JsonObject:
        document = discovery.api_group_list(self._registry)
        return {**document, "groups": self._aggregator.add_groups(document["groups"])}

    def _group(self, name: str) -> JsonObject | None:
        groups = self._group_list()["groups"]
        found = next((group for group in groups if group["name"] == name), None)
        return None if found is None else {"kind": "APIGroup", "apiVersion": "v1", **found}

    def _openapi(
        self, rest: list[str], http: web.BaseRequest, query: Mapping[str, str]
    ) -> web.Response | None:
        match rest:
            case ["v2"]:
                content_type = {"Content-Type": openapi_protobuf.CONTENT_TYPE}
                return _bytes(openapi_protobuf.document(), content_type)
            case ["v3"]:
                return _json(self._aggregator.add_openapi(openapi.index(self._registry)))
            case ["v3", *path]:
                return self._openapi_document("/".join(path), http, query)
        return None

    def _openapi_document(
        self, path: str, http: web.BaseRequest, query: Mapping[str, str]
    ) -> web.Response | None:
        tag = openapi.document_hash(self._registry, path)
        if tag is None:
            return None
        headers = {"ETag": f'"{tag}"'}
        if query.get("hash") == tag:
            headers["Cache-Control"] = "public, immutable"
        if http.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        document = openapi.document(self._registry, path)
        return None if document is None else _bytes(document, headers)

    def _health(
        self, name: str, checks: list[str], query: Mapping[str, str]
    ) -> web.Response | None:
        wanted = "/".join(checks)
        if wanted and wanted not in HEALTH_CHECKS:
            return None
        if wanted or "verbose" not in query:
            return web.Response(text="ok")
        lines = [f"[+]{each} ok" for each in HEALTH_CHECKS]
        return web.Response(text="\n".join([*lines, f"{name} check passed\n"]))


def _json(document: JsonObject | None, content_type: str = JSON) -> web.Response | None:
    if document is None:
        return None
    return web.Response(body=orjson.dumps(document), headers={"Content-Type": content_type})


def _bytes(document: bytes, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=document, headers={"Content-Type": JSON, **(headers or {})})
