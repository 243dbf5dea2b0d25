"""How the embedded model of everyday things was trained: its language, simulated evidence, weights.

`core.backbones.everyday` is its vision tower. Nothing here is needed to run it.
"""
