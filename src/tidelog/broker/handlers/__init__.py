"""One module per API: `handle(broker, call)`."""
