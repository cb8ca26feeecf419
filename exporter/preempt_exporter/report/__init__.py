"""The break-even report: figures of `decide` as a table, as JSON objects, as one self-contained page."""
