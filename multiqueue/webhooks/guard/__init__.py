"""The worker guard: a webhook that refuses copies and jobs of an older reservation."""
