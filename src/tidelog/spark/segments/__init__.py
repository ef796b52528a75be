"""Topics as tables: Spark reads the segment files of replicas, past the brokers."""
