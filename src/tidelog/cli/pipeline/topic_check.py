"""Questions that are asked before Spark is started: it takes seconds, a wrong name does not."""

from typing import Any, NamedTuple

import click

from tidelog.cli.asking import Asking
from tidelog.cli.failure import USAGE, CommandError
from tidelog.client import Client, TopicView
from tidelog.spark.failure import InvalidOption
from tidelog.spark.security_options import Access, security_in
from tidelog.spark.topics import compiled, matching
from tidelog.survey.topics import named_topic


class Looked(NamedTuple):
    """A cluster as it answered."""

    access: Access
    cluster_id: str | None
    topics: tuple[TopicView, ...]
    pattern: str | None = None
    """Which topics are meant, also those that come later; None: these."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.topics)

    @property
    def sources(self) -> tuple[str, ...]:
        """What stays the same from start to start."""
        return self.names if self.pattern is None else (self.pattern,)

    def arguments(self) -> dict[str, Any]:
        """Of the pipeline."""
        if self.pattern is None:
            return {"topics": list(self.names)}
        return {"pattern": self.pattern}


def names_topics(function: Any) -> Any:
    """`TOPIC…` or `--pattern`."""
    pattern = click.option(
        "--pattern",
        metavar="EXPRESSION",
        help="In place of TOPIC…: all topics whose whole name matches, also those to come.",
    )
    return click.argument("topics", nargs=-1, metavar="[TOPIC]…")(pattern(function))


def check_topics(given: dict[str, Any]) -> None:
    topics, pattern = given["topics"], given["pattern"]
    if bool(topics) == (pattern is not None):
        raise CommandError(
            "topics are named, or meant by --pattern",
            why="both are given" if topics else "neither is given",
            advice="TOPIC…    or    --pattern 'orders-.*'",
            code=USAGE,
        )
    if pattern is not None:
        check_pattern("--pattern", pattern)


def check_pattern(option: str, pattern: str) -> None:
    """Refuse what is no expression; the same as the source's `subscribePattern` takes."""
    try:
        compiled(pattern)
    except InvalidOption as error:
        raise CommandError(
            f"wrong value for {option}: {pattern}",
            why=error.what.removeprefix("the option subscribePattern is "),
            advice=f"{option} 'orders-.*'",
            code=USAGE,
        ) from None


def access_of(located: Asking) -> Access:
    """What Spark must know to reach the same cluster."""
    assert located.bootstrap is not None, "located() gives an address"
    return Access(located.bootstrap, security_in(located.properties))


def look_at(asking: Asking, names: tuple[str, ...], pattern: str | None = None) -> Looked:
    """Each topic once, in the order given; an error with a guess if one does not exist. A pattern
    may mean nothing yet."""
    located = asking.located()

    async def look(client: Client) -> Looked:
        if pattern is not None:
            found = tuple(await matching(client, pattern))
        else:
            found = tuple([await named_topic(client, name) for name in dict.fromkeys(names)])
        view = await client.brokers()
        return Looked(access_of(located), view.cluster_id, found, pattern)

    looked = located.run(look)
    if pattern is not None and not looked.topics:
        click.echo(f"no topic matches {pattern} yet", err=True)
    return looked
