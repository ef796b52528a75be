"""What a request needs to be allowed, looked at before its handler sees it."""
