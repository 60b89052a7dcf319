"""Scenarios with fixed parameters, which nobody tunes after their first run."""
