"""What came out of simulated seeds, as text and as json."""

from typing import Any

import click

from tidelog.cli import session
from tidelog.cli.output import count, duration, plural, tally
from tidelog.sim.fleet import FleetReport
from tidelog.sim.marks import all_counts, table_of, unreached
from tidelog.sim.plan import NODE_DEPTH
from tidelog.sim.results import SeedResult
from tidelog.sim.run import Run
from tidelog.sim.story import LEGEND, is_silent

FAILURES_SHOWN = 10


def replay_command(seed: int, *, depth: str = NODE_DEPTH, mutant: str | None = None) -> str:
    depth_flag = f" --depth {depth}" if depth != NODE_DEPTH else ""
    mutant_flag = f" --mutant {mutant}" if mutant else ""
    return f"tidelog sim run --seed {seed}{depth_flag}{mutant_flag}"


def failure_json(result: SeedResult, *, depth: str, mutant: str | None) -> dict[str, Any]:
    violation = result.violations[0]
    return {
        "seed": result.seed,
        "rule": violation.rule,
        "at_ms": violation.at_ms,
        "text": violation.text,
        "replay": replay_command(result.seed, depth=depth, mutant=mutant),
    }


def fleet_json(report: FleetReport, *, depth: str, mutant: str | None) -> dict[str, Any]:
    return {
        "seeds": report.seeds,
        "first": min(report.digests, default=0),
        "depth": depth,
        "violations": report.violations,
        "failures": [failure_json(f, depth=depth, mutant=mutant) for f in report.failures],
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
        "marks": all_counts(report.marks, table_of(depth)),
        "interrupted": report.interrupted,
        "digest": report.digest(),
    }


def print_fleet(
    report: FleetReport, *, depth: str, mutant: str | None, elapsed_seconds: float
) -> None:
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
    if depth != NODE_DEPTH:
        print_marks(report, depth)
    click.echo(f"digest    {report.digest()}")
    for failure in report.failures[:FAILURES_SHOWN]:
        print_failure(failure, depth=depth, mutant=mutant)
    if len(report.failures) > FAILURES_SHOWN:
        click.echo(f"and {len(report.failures) - FAILURES_SHOWN} more")


def print_marks(report: FleetReport, depth: str) -> None:
    """How many rare states were reached, and which were not."""
    table = table_of(depth)
    missing = unreached(report.marks, table)
    click.echo(f"marks     {len(table) - len(missing)} of {len(table)} reached")
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


def print_failure(result: SeedResult, *, depth: str, mutant: str | None) -> None:
    violation = result.violations[0]
    rule = session.current().styled(violation.rule, "red")
    click.echo(f"seed {result.seed} broke {rule} at {violation.at_ms / 1000:.3f}s")
    click.echo(f"  {violation.text}")
    click.echo(f"  replay: {replay_command(result.seed, depth=depth, mutant=mutant)}")
    flags = replay_command(result.seed, depth=depth, mutant=mutant).partition("--seed ")[2]
    click.echo(f"  shrink: tidelog sim shrink {flags}")


def story_json(run: Run, result: SeedResult, *, everything: bool) -> dict[str, Any]:
    """One seed with its story; keys shared with `fleet_json` mean the same."""
    plan = run.plan
    return {
        "seed": result.seed,
        "depth": plan.depth,
        "plan": plan.headline(),
        "violations": len(result.violations),
        "failures": [violation._asdict() for violation in result.violations],
        "steps": result.steps,
        "simulated_seconds": result.simulated_ms / 1000,
        "acknowledged": result.acknowledged,
        "refused": result.refused,
        "timed_out": result.timed_out,
        "lost": result.lost,
        "forfeited": result.forfeited,
        "faults": result.faults,
        "declined": result.declined,
        "marks": result.marks,
        "digest": result.digest,
        "story": [
            {
                "at_ms": moment.at_us / 1000,
                "step": moment.step,
                "node": moment.node,
                "event": type(moment.happening).__name__,
                "text": run.trace.narrator.tell(moment.happening)[1],
            }
            for moment in run.trace.moments()
            if everything or not is_silent(moment.happening)
        ],
    }


def node_story_json(told: Any, *, everything: bool) -> dict[str, Any]:
    """A whole-node run with its story; keys shared with `fleet_json` mean the same."""
    result: SeedResult = told.result
    return {
        "seed": result.seed,
        "depth": "node",
        "plan": told.plan.headline(),
        "violations": len(result.violations),
        "failures": [violation._asdict() for violation in result.violations],
        "steps": result.steps,
        "simulated_seconds": result.simulated_ms / 1000,
        "acknowledged": result.acknowledged,
        "refused": result.refused,
        "lost": result.lost,
        "faults": result.faults,
        "digest": result.digest,
        "story": told.story.as_json(everything=everything),
        "state": list(told.state),
    }


def print_story(run: Run, result: SeedResult, *, again: str, everything: bool) -> None:
    """`again` is the command that does the same once more."""
    click.echo(run.plan.headline())
    click.echo(LEGEND)
    for line in run.trace.story(everything=everything):
        click.echo(line)
    if result.violations and run.world is not None:
        for line in run.world.describe():
            click.echo(line)
    print_verdict(result, again)


def print_node_story(told: Any, *, again: str, everything: bool) -> None:
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
