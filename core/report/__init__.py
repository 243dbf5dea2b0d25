"""A trace in words and as plain values, for a terminal, a file or another program."""
