"""The spend ledger that only the newest attempt can write to: budget, leases, epochs, artifacts.

`requests` come in, `decide` judges them over the rows that a store loaded, the store keeps outcome and ledger line
in one transaction, `service` appends the line. `worker` is what runs on the preemptible side.
"""
