"""Conversion between v1beta1 and v1beta2, on dicts as on the wire."""
