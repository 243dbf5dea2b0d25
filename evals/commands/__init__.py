"""Commands of `python -m evals` that have a file of their own: each adds its parser."""
