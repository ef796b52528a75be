"""Jobs that are ready to run: topics into tables, topics to another cluster, health from events.

Each is a small module with a function that starts a query on a session that is given to it; what
they share (state beside the checkpoint, a line per batch, a clean end) is `running`.
"""
