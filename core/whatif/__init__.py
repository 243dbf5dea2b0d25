"""Changes by hand to a finished trace, and the measured effect of masking each object."""
