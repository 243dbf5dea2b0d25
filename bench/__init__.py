"""Performance, as ratios measured in one run. `make bench`, or `python -m bench NAME …`."""
