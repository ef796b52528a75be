"""A benchmark whose records are all read back: speed is worth nothing if one of them is wrong."""
