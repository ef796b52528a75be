"""`tidelog secure check`: what a stranger could do right now, in plain words."""

import asyncio

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import ERROR, OK, UNREACHABLE, USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.cli.secure import http_strangers, judgement, strangers
from tidelog.cli.secure.inside import Inside, look_inside
from tidelog.cli.secure.judgement import NOTE, OPEN, WEAK, Told
from tidelog.client import parse_bootstrap

INSIDE_WITHIN_MS = 10_000
HEADS = {
    OPEN: "OPEN to strangers",
    WEAK: "Weaker than it should be",
    NOTE: "Good to know",
}


@click.command(name="check")
@click.option(
    "--http", "http", multiple=True, metavar="HOST:PORT", help="An HTTP port to try. Repeatable."
)
@asks_cluster
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, *, asking: Asking, http: tuple[str, ...], output: str) -> None:
    """Try every listener of a cluster as a stranger would, and tell what that gets.

    \b
    Examples:
      tidelog secure check
      tidelog secure check -b tide-1.example.org:9092 --http tide-1.example.org:9644
      tidelog secure check --command-config admin.properties -o json

    With the login of an administrator all listeners, settings and rules are looked at; without one,
    the addresses that were given. Nothing is changed. A made-up login is tried where PLAIN is
    offered, and the nodes write that down.

    Ends with exit code 1 if something is open or weak, 3 if nobody answers.
    """
    located = asking.located()
    inside = inside_of(located)
    kafka = dict.fromkeys(parse_bootstrap(located.bootstrap or ""), "a bootstrap address")
    kafka.update(inside.listeners)
    ports = {**dict.fromkeys(map(address_of, http), "HTTP"), **inside.http}
    told = asyncio.run(try_all(kafka, ports)) + judgement.of_inside(inside)
    found = list(dict.fromkeys(told))
    is_open = any(each.level in (OPEN, WEAK) for each in found)
    if output == "json":
        print_json({"open": is_open, "findings": [each._asdict() for each in found]})
    else:
        report(found)
    context.exit(ERROR if is_open else OK)


def inside_of(asking: Asking) -> Inside:
    """Nothing but the reason if this login is not let in."""
    timeout_ms = min(asking.timeout_ms, INSIDE_WITHIN_MS)
    try:
        return asking._replace(timeout_ms=timeout_ms).run(look_inside)
    except CommandError as error:
        if error.code == USAGE:
            raise
        return Inside(unknown=f"{error.what}: {error.why}")


def address_of(text: str) -> strangers.Address:
    try:
        return parse_bootstrap(text)[0]
    except ValueError as reason:
        raise CommandError(
            "wrong value for --http", why=str(reason), advice="--http 127.0.0.1:9644", code=USAGE
        ) from None


async def try_all(
    kafka: dict[strangers.Address, str], http: dict[strangers.Address, str]
) -> list[Told]:
    seen = await asyncio.gather(*(strangers.look(each) for each in kafka))
    if not any(each.answers for each in seen):
        addresses = ", ".join(f"{host}:{port}" for host, port in kafka)
        raise CommandError(
            f"{addresses} cannot be reached",
            why="nobody listens there",
            advice="tidelog ps, or another -b host:port",
            code=UNREACHABLE,
        )
    told: list[Told] = []
    for (address, name), what in zip(kafka.items(), seen, strict=True):
        told += judgement.of_listener(address, name, what)
    ports = await asyncio.gather(*(http_strangers.look(each) for each in http))
    for (address, name), page in zip(http.items(), ports, strict=True):
        told += judgement.of_http(address, name, page)
    return told


def report(found: list[Told]) -> None:
    for level, head in HEADS.items():
        of_level = [each for each in found if each.level == level]
        if not of_level:
            continue
        click.echo(f"{head}:")
        for each in of_level:
            where = f"{each.where}: " if each.where else ""
            click.echo(f"  {where}{each.text}")
            if each.advice:
                click.echo(f"    try: {each.advice}")
    bad = [each for each in found if each.level != NOTE]
    click.echo(plural(len(bad), "problem") if bad else "a stranger gets nothing")
