"""What secures a cluster: certificate authority, certificates, and files for its clients."""
