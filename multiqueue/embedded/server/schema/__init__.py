"""Structural schemas: pruning, defaulting and validation of objects."""

from multiqueue.embedded.server.schema.admit import Admitted, FieldValidation, admit

__all__ = ["Admitted", "FieldValidation", "admit"]
