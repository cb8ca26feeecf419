"""The control service: gate, spend service and router behind HTTP, and the actions that alerts name.

`bodies` come in through `doors`, an `Operation` of `operations` carries them out on the `Desk`, `keyed` sees to it
that a request with an Idempotency-Key happens once. It acts, so it imports nothing that watches.
"""
