"""A Trace ⇄ a .macd file."""
