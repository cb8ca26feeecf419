"""Admission for real: the policy of `decide`, and a ledger in which every decision stands before it is told."""
