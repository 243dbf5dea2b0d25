"""A model's weights as files, whatever its family.

Which files are read, what distinguishes two sets, whether they are all that the model needs, and
what is applied over them.
"""
