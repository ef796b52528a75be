"""Pure state machines: no I/O, no clock, no randomness.

Input goes in as values together with `now_ms`; what should be done comes out as
effects. The same code runs inside a broker and inside the simulator.
"""
