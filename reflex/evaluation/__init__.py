"""A suite through the one forward, run by Lightning."""
