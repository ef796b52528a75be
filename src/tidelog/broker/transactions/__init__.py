"""Transactions: producer ids, verification by coordinators, end markers."""
