"""The current state of topics: change events, and which of them a table has to follow.

Everything here is Arrow in and Arrow out, without Spark: what a record says (`envelopes`), where
it stands at its source (`positions`), which record of a key is the last one (`latest`), and what
that means for the files of a table (`buckets`).
"""
