"""The ledger's lines: what they are (`records`), how bytes become them (`decode`), how they are appended (`writer`)."""
