"""The guard of a worker: refuses copies and jobs that a manager made for an older reservation."""
