"""A question as the text a model reads: styles, option orders, labels. Imports no torch."""
