"""Benchmarks, metrics and statistics; a report that says where a method helps and where it hurts.

Knows methods and traces from `core`; no page, no plots outside `report` and `plots`.
"""
