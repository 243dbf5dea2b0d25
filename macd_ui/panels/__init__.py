"""One file a panel: its widgets, and their wiring to handlers."""
