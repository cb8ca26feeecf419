"""From bytes on disk to whole lines, each exactly once: which files, how far they were read, what woke us."""
