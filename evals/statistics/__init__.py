"""Rows to figures: metrics, intervals, tests, and the constants that methods are compared with."""
