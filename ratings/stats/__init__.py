"""What ratings say, and how surely: NumPy only."""
