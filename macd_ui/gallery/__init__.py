"""A folder of traces as a static site: an index with filters, and each run in the full viewer.

Needs no server, no network, no model and no Gradio; `python -m macd_ui.gallery OUT TRACES…`.
"""
