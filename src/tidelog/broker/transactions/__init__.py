"""Transactions: producer ids, questions to coordinators, end markers."""
