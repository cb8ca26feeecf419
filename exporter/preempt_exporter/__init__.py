"""Preempt exporter: what preemptions cost a batch of LLM work, told from the attempt ledger."""

__version__ = "0.1.0"
