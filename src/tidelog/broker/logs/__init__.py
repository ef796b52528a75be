"""The log directories of a broker, and all work on files beside the event loop."""
