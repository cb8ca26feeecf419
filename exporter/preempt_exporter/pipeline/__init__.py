"""Ties reading, decoding and folding together, and answers what the web side asks of the result."""
