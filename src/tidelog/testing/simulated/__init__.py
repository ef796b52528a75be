"""Clusters on virtual time, with the interface of all clusters of tests: `Cluster(host="sim")`."""
