"""What can be found out about a cluster through a client: shared by the command and the console."""
