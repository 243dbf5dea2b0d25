"""Metrics, intervals, tests and what they cover."""
