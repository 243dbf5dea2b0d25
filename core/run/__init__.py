"""One run: its order, and the events of the whole."""
