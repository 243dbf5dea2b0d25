"""One run: its order, its context, what it costs, and the events of the whole."""
