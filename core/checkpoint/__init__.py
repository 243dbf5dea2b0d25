"""A model's weights as they lie in a folder: which files are read, what distinguishes two sets,
whether they are all that the model needs, and what is applied over them. Knows no model family."""
