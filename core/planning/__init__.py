"""What a model takes, known before it is loaded: passes without values."""
