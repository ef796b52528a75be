"""What a node tells about itself: one stream of events, and everything that renders it."""
