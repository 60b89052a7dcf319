"""Forecasts of Workloads on workers, made before anything is sent; see README.md."""
