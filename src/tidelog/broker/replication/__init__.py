"""The replicas this broker hosts, and how they follow those of other brokers."""
