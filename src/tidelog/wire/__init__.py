"""Kafka's bytes: record batches, checksums, compression. Knows nothing of `tidelog.core`."""
