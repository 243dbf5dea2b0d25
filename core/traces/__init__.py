"""A Trace ⇄ a .macd file, its summary, and the command that computes it again."""
