"""Proof that the sink writes every row once: drivers, workers and leaders are killed, and counted.

`benchmarks/exactly_once.py` runs it at length, `tests/spark/test_sink_killed.py` in short.
"""
