"""The active controller of a cluster, as brokers and tools reach it over the wire."""
