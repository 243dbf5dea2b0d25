"""Rows and figures as tables, plots and pages."""
