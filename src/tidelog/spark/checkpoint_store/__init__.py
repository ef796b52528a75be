"""Checkpoints of Spark's queries in object stores, without jars (ADR 0055).

Spark writes checkpoints through Hadoop. The client in PySpark has no file system for an object
store, but it has one for WebHDFS, which is HTTP. So the driver serves WebHDFS to itself, and keeps
the files in a store.
"""
