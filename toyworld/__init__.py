"""A drawn world whose habits are known, and the small models trained on it.

`priors.toml` holds the habits, `world.py` draws clips from them, `questions.py` asks about them,
`train_backbone.py` and `train_detector.py` make the weights in `assets/toyworld/`.
"""
