"""A virtual world for nodes: time, network, disks and chance that a seed decides."""
