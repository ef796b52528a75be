"""Parts of answers about the cluster that several handlers share."""
