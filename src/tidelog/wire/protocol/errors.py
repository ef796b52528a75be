"""What can be wrong with a frame. Nothing else escapes from this package on hostile bytes.

There is no generic error body in Kafka's protocol: whoever gets one of these closes the
connection. The one exception is ApiVersions of a version we do not know, which is answered
with version 0 and UNSUPPORTED_VERSION.
"""


class ProtocolError(Exception):
    """The bytes are not the message they should be, or a message cannot be put into bytes."""


class UnsupportedVersion(ProtocolError):  # noqa: N818 - named like the code a client gets
    """An API key or a version of an API that has no schema here."""
