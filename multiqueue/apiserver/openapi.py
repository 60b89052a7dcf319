"""OpenAPI documents: v3 per group version, and the v2 document that older clients ask for."""

from multiqueue.apiserver.kinds import JsonObject, Registry


def index(registry: Registry) -> JsonObject:
    """What /openapi/v3 answers: ``{"paths": {"apis/batch/v1": {"serverRelativeURL": "/openapi/v3/...?hash=..."}}}``."""
    raise NotImplementedError


def document(registry: Registry, path: str) -> bytes | None:
    """What /openapi/v3/<path> answers (``api/v1``, ``apis/batch/v1``), encoded; None if not served."""
    raise NotImplementedError


def document_hash(registry: Registry, path: str) -> str | None:
    """The current hash of a document: ETag, and the ``hash`` query parameter that allows caching for ever."""
    raise NotImplementedError


def swagger(registry: Registry) -> bytes:
    """What /openapi/v2 answers, as JSON."""
    raise NotImplementedError
