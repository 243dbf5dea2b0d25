"""What counts as a right answer: rules by name, scores of predictions, and where rules differ."""

TRACES = "traces"
"""The folder of a report that holds the traces of its answers."""
