"""The broker and the active controller: what each tells the other, and metadata that comes back."""
