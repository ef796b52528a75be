"""The production state machines under a virtual clock, network, disk and chance."""
