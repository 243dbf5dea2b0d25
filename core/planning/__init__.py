"""What a backbone takes at its true size, without loading its weights."""
