"""multiqueue: one queue for every GPU cluster."""

__version__ = "0.1.0"
