"""The commands, a file each; `main` finds them. Nothing imports this floor."""
