"""Labelled local drills: what the rooms that act do, played through from end to end. Nothing imports this floor."""
