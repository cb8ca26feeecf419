"""Decisions, pure: evidence, figures and thresholds in; a verdict with its reason out. No clock, no file, no state."""
