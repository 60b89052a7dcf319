"""Dispatchers that people ask for, each a page: use them, or copy one and change it."""
