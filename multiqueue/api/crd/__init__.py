"""CustomResourceDefinitions from the types: ``python -m multiqueue.api.crd DIRECTORY``."""

from __future__ import annotations

from multiqueue.api.crd.definitions import load_crds

__all__ = ["load_crds"]
