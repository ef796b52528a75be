"""The broker's exchange with the active controller, and the metadata that comes back."""
