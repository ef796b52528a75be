"""One module per API: from the wire to the controller's types and back."""
