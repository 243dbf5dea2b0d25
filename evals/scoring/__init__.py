"""What counts as a right answer: rules by name, scores of predictions, and where rules differ."""
