"""What clients did and were told, one row per record, and the anomalies that rows can show.

The names are those of the Kafka workload of Jepsen-class checkers. Every check exists twice, in
plain Python for a history that fits into memory (`checks`), and as DataFrames (`on_spark`); both
give the same findings. Nothing here knows how replication works.
"""
