"""Example dispatchers for common needs, one page each: use them, or copy and change them."""
