"""True counterfactual pairs: what a removal is worth, and what a patch itself tells a model.

items.py     pairs of clips with a question, of a benchmark, of own files, or drawn
meter.py     logits of yes and no → the patch meter and the headroom, with intervals, as tables
"""
