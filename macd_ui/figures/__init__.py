"""Trace → plotly and matplotlib figures. No widgets."""
