"""What groups and transactions share: led partitions of internal topics, and calls that wait."""
