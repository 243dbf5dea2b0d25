"""Tracks → soft masks → the counterfactual; gradient ascent on the mask strengths."""
