"""Listening with bounds: sockets, connections that are never waited for too long, and a clean stop."""
