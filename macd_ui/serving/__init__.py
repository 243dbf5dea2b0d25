"""Serving the page: who reaches it, what a visitor may use, how it starts and ends."""
