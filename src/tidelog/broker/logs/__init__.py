"""The log directories of a broker, and everything that is done to files beside the event loop."""
