"""S1Bench in parts: definitions, upstreams, selection and its word, published figures."""
