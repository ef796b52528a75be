"""Commands about the cluster that runs on this machine."""
