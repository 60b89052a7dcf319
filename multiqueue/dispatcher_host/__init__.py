"""Asking dispatchers: which one, what it is shown, and the fence around it."""
