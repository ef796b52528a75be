"""Coordinators of groups and transactions, run on partitions of internal topics."""
