"""Requests and answers of Kafka's protocol over a `Network`: serve a table, ask a peer."""

from tidelog.rpc.caller import Caller
from tidelog.rpc.calls import Call, Handler
from tidelog.rpc.connection import ApiTable
from tidelog.rpc.peer import Answer, EncodedRequest, Peer
from tidelog.rpc.server import serve

__all__ = ["Answer", "ApiTable", "Call", "Caller", "EncodedRequest", "Handler", "Peer", "serve"]
