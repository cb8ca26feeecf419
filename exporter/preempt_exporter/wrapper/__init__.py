"""One attempt at one task as a process of its own: the gate for that task, its lock, and the command it wraps."""
