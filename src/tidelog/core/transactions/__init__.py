"""Transactions: which producer may write, and whether what it wrote counts (KIP-98, KIP-890)."""
