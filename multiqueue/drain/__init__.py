"""Cordon and drain: whose orders, who leaves at what pace, and what is told of it."""
