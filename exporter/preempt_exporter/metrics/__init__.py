"""From figures to the text that Prometheus reads: families as data, samples by group, one renderer."""
