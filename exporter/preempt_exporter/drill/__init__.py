"""Labelled local drills: fake work that really writes ledgers, so that what watches them can be seen at work.

Rooms here act; they never import what watches.
"""
