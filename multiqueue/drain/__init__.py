"""Cordon and drain: the orders, which Workloads leave, at what pace, and the reports."""
