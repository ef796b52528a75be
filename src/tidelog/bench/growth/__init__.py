"""How the cost of a cluster grows with what is asked of it: partitions, connections, bytes."""
