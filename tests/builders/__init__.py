"""Objects for tests: the smallest valid ones, changed by keyword arguments."""
