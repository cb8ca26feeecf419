"""Serves what the exporter knows: the scrape, its health, and to those who may see it the page and its API."""
