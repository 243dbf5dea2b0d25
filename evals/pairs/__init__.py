"""True counterfactual pairs: what a removal is worth, and what a patch itself tells a model.

items.py     pairs of clips with a question, of a benchmark, of own files, or drawn
read.py      the logits of yes and no for a clip, its partner, and its masks
meter.py     those → the patch meter and the headroom, with intervals over pairs
show.py      both as tables
"""
