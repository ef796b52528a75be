"""From the frame of a Produce to its acknowledgement."""
