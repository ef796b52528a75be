"""Consumer groups: what the handlers of their APIs share."""
