"""One experiment each, run as `python -m evals.studies.NAME`, whose tables stand in docs/."""
