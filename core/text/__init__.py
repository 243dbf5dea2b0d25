"""Words of a language: numbers with their nouns, phrases of a question, the question itself."""
