"""What secures a cluster: its certificate authority, its certificates, and files for its clients."""
