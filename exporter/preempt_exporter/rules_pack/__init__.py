"""The rules pack: what it must keep to (`lint`), how it is written with other values, and its tests under pytest."""
