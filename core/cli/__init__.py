"""The command line: its flags and its commands."""
