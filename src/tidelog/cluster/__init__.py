"""Clusters of real processes on this machine, for `tidelog up` and for tests.

A node is started as `python -m tidelog node start`, so what is tried here is what is deployed.
Everything about a cluster lies in one directory; nothing needs to be running to read it.
"""
