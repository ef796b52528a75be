"""The deterministic simulator: a whole cluster in one process, on one virtual timeline.

Everything a run does follows from its plan, and the plan follows from its seed. Nothing in
this package reads a clock, a file or the process's own randomness while a seed runs.
"""
