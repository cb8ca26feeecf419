"""The Grafana dashboard: what it is made from, and what it is held against."""
