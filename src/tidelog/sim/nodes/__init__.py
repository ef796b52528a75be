"""Whole-node runs: production nodes and our own client on virtual time, wires and disks.

Nothing here performs what a node does. A run gives every node an event loop, TCP connections,
disks, clocks and threads that are drawn from the seed, and breaks them.
"""
