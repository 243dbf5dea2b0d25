"""A trace drawn over its frames, as pictures and as a film."""
