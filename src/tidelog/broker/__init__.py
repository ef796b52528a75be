"""The broker: hosted replicas, one handler per API, and the ways to other nodes."""
