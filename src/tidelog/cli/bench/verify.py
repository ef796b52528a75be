"""`tidelog bench verify`: full speed, and every record read back and compared."""

from typing import Any

import click

from tidelog.bench.compare.system import SystemFailed
from tidelog.bench.verify.producing import Work
from tidelog.bench.verify.run import Outcome, run
from tidelog.bench.verify.values import VALUE_BYTES_MAX, VALUE_BYTES_MIN
from tidelog.cli.bench.load_client import check_client
from tidelog.cli.failure import NOT_REACHED, OK, UNREACHABLE, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.local.up import interrupts
from tidelog.cli.output import plural, print_json

DEFAULT = Work()
MB = 1_000_000


@click.command(name="verify")
@click.option(
    "--producers", type=click.IntRange(1, 64), default=DEFAULT.producers, show_default=True
)
@click.option(
    "--records",
    type=click.IntRange(1, 10_000_000),
    default=DEFAULT.records,
    show_default=True,
    help="Of each producer.",
)
@click.option(
    "--record-bytes",
    type=click.IntRange(VALUE_BYTES_MIN, VALUE_BYTES_MAX),
    default=DEFAULT.record_bytes,
    show_default=True,
)
@click.option(
    "--partitions", type=click.IntRange(1, 100), default=DEFAULT.partitions, show_default=True
)
@click.option(
    "--durability",
    type=click.Choice(["page-cache", "fsync"]),
    default=DEFAULT.durability,
    show_default=True,
    help="What an acknowledgement means.",
)
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Write at full speed with acks=all, then read back and compare every record.

    Three brokers are started for it and removed afterwards. Several producers write to all
    partitions at once. Every acknowledged record must be found once, at the offset that was
    told, with the same bytes, and in the order of its producer in its partition; the replicas
    must hold the same. Exit code 5 if that is not so, 4 if some records were not acknowledged.
    With faults, at a rate: tidelog audit run.

    \b
    Examples:
      tidelog bench verify
      tidelog bench verify --producers 8 --record-bytes 100 --durability fsync
    """
    output = given.pop("output")
    work = Work(**given)
    check_client()
    try:
        with interrupts():
            outcome = run(work, lambda step: click.echo(step, err=True))
    except SystemFailed as reason:
        raise CommandError(
            "nothing could be verified",
            why=str(reason),
            advice="tidelog bench verify --producers 1 --records 1000",
            code=UNREACHABLE,
        ) from None
    if output == "json":
        print_json(as_document(outcome, work))
    else:
        report(outcome, work)
    context.exit(exit_code(outcome))


def exit_code(outcome: Outcome) -> int:
    if not outcome.is_clean:
        return VIOLATION
    return NOT_REACHED if outcome.verdict.in_doubt else OK


def as_document(outcome: Outcome, work: Work) -> dict[str, Any]:
    return {
        "clean": outcome.is_clean,
        **work._asdict(),
        **outcome.verdict._asdict(),
        "changed": outcome.changed,
        "diverging_replicas": outcome.diverging,
        "refused": outcome.refused,
        "write_seconds": round(outcome.write_seconds, 3),
    }


def report(outcome: Outcome, work: Work) -> None:
    verdict = outcome.verdict
    rate = verdict.acknowledged * work.record_bytes / MB / outcome.write_seconds
    click.echo(
        f"{plural(verdict.acknowledged, 'record')} acknowledged to "
        f"{plural(work.producers, 'producer')} at {rate:.0f} MB/s, "
        f"{plural(verdict.read_back, 'record')} read back"
    )
    click.echo(
        f"{verdict.lost} lost · {verdict.duplicated} duplicated · {verdict.out_of_order} out of "
        f"order · {verdict.misplaced} misplaced · {verdict.never_sent} never sent · "
        f"{outcome.changed} changed · {verdict.in_doubt} not acknowledged"
    )
    for reason in outcome.refused:
        click.echo(f"  refused: {reason}")
    replicas = (
        "\n  ".join(["not the same", *outcome.diverging]) if outcome.diverging else "identical"
    )
    click.echo(f"replicas: {replicas}")
    click.echo("every record is as it was written" if outcome.is_clean else "A PROMISE IS BROKEN")
