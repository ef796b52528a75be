"""What came out of simulated seeds, as text and as json."""

from typing import Any

import click

from tidelog.cli import session
from tidelog.cli.output import count, duration, plural, tally
from tidelog.sim.fleet import FleetReport
from tidelog.sim.marks import MARKS, all_counts, unreached
from tidelog.sim.nodes.run import Told
from tidelog.sim.results import SeedResult

FAILURES_SHOWN = 10


def replay_command(seed: int, *, mutant: str | None = None) -> str:
    mutant_flag = f" --mutant {mutant}" if mutant else ""
    return f"tidelog sim run --seed {seed}{mutant_flag}"


def failure_json(result: SeedResult, *, mutant: str | None) -> dict[str, Any]:
    violation = result.violations[0]
    return {
        "seed": result.seed,
        "rule": violation.rule,
        "at_ms": violation.at_ms,
        "text": violation.text,
        "replay": replay_command(result.seed, mutant=mutant),
    }


def fleet_json(report: FleetReport, *, mutant: str | None) -> dict[str, Any]:
    return {
        "seeds": report.seeds,
        "first": min(report.digests, default=0),
        "violations": report.violations,
        "failures": [failure_json(f, mutant=mutant) for f in report.failures],
        "steps": report.steps,
        "steps_per_second": round(report.steps_per_second),
        "simulated_seconds": report.simulated_ms / 1000,
        "acknowledged": report.acknowledged,
        "refused": report.refused,
        "timed_out": report.timed_out,
        "lost": report.lost,
        "forfeited": report.forfeited,
        "faults": dict(sorted(report.faults.items())),
        "declined": dict(sorted(report.declined.items())),
        "marks": all_counts(report.marks),
        "interrupted": report.interrupted,
        "digest": report.digest(),
    }


def print_fleet(report: FleetReport, *, mutant: str | None, elapsed_seconds: float) -> None:
    click.echo(_verdict(report, elapsed_seconds))
    click.echo(
        f"acknowledged {count(report.acknowledged)} · lost {count(report.lost)} · "
        f"refused {count(report.refused)} · timed out {count(report.timed_out)}"
    )
    if report.forfeited:
        click.echo(
            f"forfeited {count(report.forfeited)} where an unclean election was allowed or the"
            " last intact copy was destroyed"
        )
    click.echo(f"faults    {tally(report.faults)}")
    if report.declined:
        click.echo(f"declined  {tally(report.declined)}")
    print_marks(report)
    click.echo(f"digest    {report.digest()}")
    for failure in report.failures[:FAILURES_SHOWN]:
        print_failure(failure, mutant=mutant)
    if len(report.failures) > FAILURES_SHOWN:
        click.echo(f"and {len(report.failures) - FAILURES_SHOWN} more")


def print_marks(report: FleetReport) -> None:
    """How many rare states were reached, and which were not."""
    missing = unreached(report.marks)
    click.echo(f"marks     {len(MARKS) - len(missing)} of {len(MARKS)} reached")
    if missing:
        click.echo(f"unreached {' · '.join(missing)}")


def _verdict(report: FleetReport, elapsed_seconds: float) -> str:
    if report.failures:
        word = session.current().styled("FAILED", "red")
    else:
        word = session.current().styled("ok", "green")
    stopped = " · interrupted" if report.interrupted else ""
    return (
        f"{word}{stopped} · {plural(report.seeds, 'seed')}, "
        f"{plural(report.violations, 'violation')} · {plural(report.steps, 'step')} · "
        f"{duration(report.simulated_ms / 1000)} simulated in {duration(elapsed_seconds)} · "
        f"{count(report.steps_per_second)} steps/s per core"
    )


def print_failure(result: SeedResult, *, mutant: str | None) -> None:
    violation = result.violations[0]
    rule = session.current().styled(violation.rule, "red")
    click.echo(f"seed {result.seed} broke {rule} at {violation.at_ms / 1000:.3f}s")
    click.echo(f"  {violation.text}")
    click.echo(f"  replay: {replay_command(result.seed, mutant=mutant)}")
    flags = replay_command(result.seed, mutant=mutant).partition("--seed ")[2]
    click.echo(f"  shrink: tidelog sim shrink {flags}")
    click.echo(f"  open:   {replay_command(result.seed, mutant=mutant)} --open")


def story_json(told: Told, *, everything: bool) -> dict[str, Any]:
    """One seed with its story; keys shared with `fleet_json` mean the same."""
    result: SeedResult = told.result
    return {
        "seed": result.seed,
        "plan": told.plan.headline(),
        "violations": len(result.violations),
        "failures": [violation._asdict() for violation in result.violations],
        "steps": result.steps,
        "simulated_seconds": result.simulated_ms / 1000,
        "acknowledged": result.acknowledged,
        "refused": result.refused,
        "lost": result.lost,
        "faults": result.faults,
        "declined": result.declined,
        "marks": result.marks,
        "digest": result.digest,
        "story": told.story.as_json(everything=everything),
        "state": list(told.state),
    }


def print_story(told: Told, *, again: str, everything: bool) -> None:
    """`again` is the command that does the same once more."""
    for line in told.lines(everything=everything):
        click.echo(line)
    print_verdict(told.result, again)


def print_verdict(result: SeedResult, again: str) -> None:
    current = session.current()
    word = current.styled("FAILED", "red") if result.violations else current.styled("ok", "green")
    click.echo(
        f"{word} · {duration(result.simulated_ms / 1000)} simulated · "
        f"{plural(result.steps, 'step')} · {count(result.acknowledged)} acknowledged, "
        f"{count(result.lost)} lost · digest {result.digest} · replay: {again}"
    )
    for violation in result.violations:
        rule = current.styled(violation.rule, "red")
        click.echo(f"  {rule} at {violation.at_ms / 1000:.3f}s: {violation.text}")
    if current.debug and result.traceback:
        click.echo(result.traceback, err=True)
