"""Defaults and rules of our kinds: pure functions on wire objects of v1beta2."""
