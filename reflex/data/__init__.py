"""Labelled rows and the deterministic ways to divide them."""
