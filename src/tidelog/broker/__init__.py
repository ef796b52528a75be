"""A broker: replicas on disk, requests of clients and peers, a link to the active controller."""
