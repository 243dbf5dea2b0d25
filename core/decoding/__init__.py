"""Views → tokens: the contrastive score, the loop over views, beam search and voting."""
