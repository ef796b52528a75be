"""The permissions that a request needs, checked before its handler sees it."""
