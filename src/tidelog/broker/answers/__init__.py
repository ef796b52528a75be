"""What several handlers say about the cluster."""
