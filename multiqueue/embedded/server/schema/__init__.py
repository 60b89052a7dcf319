"""Structural schemas: pruning, defaulting and validation of objects."""

from multiqueue.embedded.server.schema.admit import (
    Admitted,
    FieldValidation,
    admit,
    validate_create,
    validate_status,
    validate_update,
)

__all__ = [
    "Admitted",
    "FieldValidation",
    "admit",
    "validate_create",
    "validate_status",
    "validate_update",
]
