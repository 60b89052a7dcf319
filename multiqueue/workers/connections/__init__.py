"""The connections to the workers: sessions, their informers, and the workers' health."""
