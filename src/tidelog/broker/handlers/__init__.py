"""One module per API; each has one function `handle(broker, call)`."""
