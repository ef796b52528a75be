"""KRaft: voting, elections and the high watermark of the metadata log."""
