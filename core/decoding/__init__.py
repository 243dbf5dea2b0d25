"""Two views → tokens: the contrastive score, the two-view loop, beam search and voting."""
