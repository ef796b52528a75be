"""Leader and follower replica: epochs, high watermark, ISR proposals, truncation."""
