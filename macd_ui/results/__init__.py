"""A report of `python -m evals run` in the app: its tables, its questions, and its traces.

Read-only: `/results` shows the folder that the server was started with, and nothing else.
"""
