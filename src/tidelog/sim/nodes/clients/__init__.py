"""The clients of whole-node runs: our own client on virtual loops, and peers that mean no good.

Every client notes in a `History` what it did and what it was told. `client_rules` compares that
with what readers find in the end.
"""
