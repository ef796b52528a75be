"""Questions that are asked before Spark is started: it takes seconds, a wrong name does not."""

from typing import NamedTuple

from tidelog.cli.asking import Asking
from tidelog.client import Client, TopicView
from tidelog.spark.security_options import Access, security_in
from tidelog.survey.topics import named_topic


class Looked(NamedTuple):
    """A cluster as it answered."""

    access: Access
    cluster_id: str | None
    topics: tuple[TopicView, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.topics)


def access_of(located: Asking) -> Access:
    """What Spark must know to reach the same cluster."""
    assert located.bootstrap is not None, "located() gives an address"
    return Access(located.bootstrap, security_in(located.properties))


def look_at(asking: Asking, names: tuple[str, ...]) -> Looked:
    """Each topic once, in the order given; an error with a guess if one does not exist."""
    located = asking.located()

    async def look(client: Client) -> Looked:
        found = tuple([await named_topic(client, name) for name in dict.fromkeys(names)])
        view = await client.brokers()
        return Looked(access_of(located), view.cluster_id, found)

    return located.run(look)
