"""What an operator may say to a node: Kafka's property names, their layers and their checks.

Pure: files, the environment and the command line are read by whoever calls.
"""
