"""Scores to honest probabilities: temperatures by bucket. One rule per file."""
