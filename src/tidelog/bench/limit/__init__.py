"""What this machine can do at best: the bytes of a benchmark, moved by a small program in C."""
