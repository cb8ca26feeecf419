"""What the ledger's lines add up to: lives, lanes and runs.

Pure: typed records and `now_ms` in, figures out; no clock, no disk, no threads. `watched.Watched.fold` is the one
entry point; every other module here is a kind of line or a thing that lines add up to.
"""
