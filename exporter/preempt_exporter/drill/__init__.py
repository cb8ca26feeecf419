"""Labelled local drills: what the rooms that act do, played through from end to end.

They act and never import what watches; only the commands import them.
"""
