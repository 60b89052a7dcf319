"""Taking a cluster over from upstream Kueue, and back."""
