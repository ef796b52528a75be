"""The cluster's metadata as this broker has them, and the requests that wait for more."""

import heapq
from collections.abc import Callable
from itertools import count

from tidelog.core.metadata.image import MetadataImage
from tidelog.core.types import PartitionId

Address = tuple[str, int]


class LocalMetadata:
    """Almost every part of a broker looks at it; `CommittedMetadata` alone changes it."""

    __slots__ = (
        "_inter_broker_listener",
        "_order",
        "_waiting",
        "image",
        "offset",
        "own_id",
        "serving",
        "unfollowed",
    )

    def __init__(self, own_id: int, inter_broker_listener: str) -> None:
        self.own_id = own_id
        self._inter_broker_listener = inter_broker_listener
        self.image = MetadataImage()
        self.offset = 0
        """Everything below it is part of `image`, and our replicas follow it."""
        self.unfollowed: dict[PartitionId, None] = {}
        """Partitions of the image that our replicas do not follow yet."""
        self.serving = False
        """Our own registration is part of it."""
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def when_followed(self, offset: int, callback: Callable[[], None]) -> None:
        """Call back once our replicas follow everything below this offset; at once if they do."""
        if offset <= self.offset:
            callback()
        else:
            heapq.heappush(self._waiting, (offset, next(self._order), callback))

    def call_back(self) -> None:
        """Whoever waited for what is followed now."""
        while self._waiting and self._waiting[0][0] <= self.offset:
            heapq.heappop(self._waiting)[2]()

    def is_running(self, broker_epoch: int) -> bool:
        """This incarnation of ours is in the metadata, unfenced: clients may be told of us."""
        own = self.image.brokers.get(self.own_id)
        return (
            self.serving and own is not None and own.broker_epoch == broker_epoch and not own.fenced
        )

    def address_of(self, broker_id: int) -> Address | None:
        """Where brokers reach this one, if it is known."""
        registration = self.image.brokers.get(broker_id)
        for endpoint in registration.endpoints if registration is not None else ():
            if endpoint.name == self._inter_broker_listener:
                return endpoint.host, endpoint.port
        return None
