"""Cordon and drain: the orders, which Workloads leave at what pace, and how it is reported."""
