"""Routing jobs to lanes: `router.yml`, and the decision table of `decide` asked with telemetry."""
