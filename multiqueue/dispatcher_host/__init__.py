"""Asking dispatchers: choose one, show it a view, and protect the manager from its failures."""
