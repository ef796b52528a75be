"""From the frame of a Fetch to its answer, for consumers and followers."""
