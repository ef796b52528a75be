"""Connections of a machine on which nothing arrives for a while.

Packets of one connection can be lost and sent again for seconds while the others of the same two
machines go on. So a proposal arrives when its replica is gone, or a leader hears of everything but
new metadata. A connection is known by the first bytes that its client wrote: they hold its id.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.sim.nodes.transport import VirtualTransport


class HeldConnections:
    """Those that a machine made for one purpose, in one direction, until they are released."""

    __slots__ = ("_held", "_incoming", "_letting_pass", "_purpose")

    def __init__(self, purpose: bytes, *, incoming: bool) -> None:
        """`incoming` is what the machine is told; otherwise what it says."""
        self._purpose = purpose
        self._incoming = incoming
        self._letting_pass = False
        self._held: list[VirtualTransport] = []

    def consider(self, transport: "VirtualTransport") -> None:
        """This machine has a connection, and says what for."""
        if self._letting_pass or self._purpose not in transport.opening:
            return
        end = transport if self._incoming else transport.peer
        end.hold()
        self._held.append(end)

    def let_others_pass(self) -> None:
        """Connections that are made from now on are as good as any."""
        self._letting_pass = True

    def release(self) -> None:
        held, self._held = self._held, []
        for end in held:
            end.release()
