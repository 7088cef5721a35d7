"""What `reflex.run` does with a configuration: one task per file."""
