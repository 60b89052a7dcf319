"""What the manager knows before it asks; see README.md."""
