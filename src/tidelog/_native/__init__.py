"""Compiled record batches: `decoding`, `encoding`, `chain` and `walk`, as `contract` says.

Rules: nothing here imports anything else of ours or raises for bytes from outside. A function
says where it stopped and `wire` finds out why, so both twins complain in the same words. Nothing
is read or written that was not compared with the end of its buffer before. May be absent: then
the Python twins in `wire.kernel` serve.
"""
