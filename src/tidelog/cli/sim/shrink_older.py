"""`tidelog sim shrink` at the object and byte depth."""

import time
from pathlib import Path

import click

from tidelog.cli.failure import CommandError
from tidelog.cli.output import plural, print_json
from tidelog.cli.progress import Progress
from tidelog.cli.sim import report
from tidelog.sim import replay_file
from tidelog.sim.fault_words import describe_fault
from tidelog.sim.plan import Plan
from tidelog.sim.results import SeedResult, Violation
from tidelog.sim.run import plan_for, run_plan
from tidelog.sim.shrink import TRIES_MAX, Shrunk, shrink


def shrink_older(
    seed: int, out: Path | None, seconds: float, *, depth: str, mutant: str | None, output: str
) -> None:
    plan = plan_for(seed, depth=depth, mutant=mutant)
    found = run_plan(plan, mutant=mutant)
    if found.rule is None:
        again = report.replay_command(seed, depth=depth, mutant=mutant)
        raise CommandError(
            f"seed {seed} breaks no rule", why="there is nothing to shrink", advice=again
        )
    shrunk = search(plan, found.violations[0], mutant, seconds)
    result = run_plan(shrunk.plan, mutant=mutant)
    path = out or Path(f"seed-{seed}.replay.json")
    write(path, shrunk.plan, result, mutant)
    if output == "json":
        print_json(as_json(plan, shrunk, result, path))
    else:
        print_text(plan, shrunk, result, path)


def write(path: Path, plan: Plan, result: SeedResult, mutant: str | None) -> None:
    try:
        replay_file.write(path, plan, result, mutant=mutant)
    except OSError as reason:
        raise CommandError(
            f"cannot write {path}", why=str(reason.strerror), advice="another --out FILE"
        ) from None


def search(plan: Plan, violation: Violation, mutant: str | None, seconds: float) -> Shrunk:
    deadline = time.monotonic() + seconds
    # A smaller plan may take longer to fail, but most that do not fail by then never will, and
    # living through their healing is what would take the time.
    until_ms = violation.at_ms * 5 // 4 + 1_000
    tries = 0
    with Progress("tries", None, seconds=seconds) as progress:

        def fails(candidate: Plan) -> str | None:
            nonlocal tries
            tries += 1
            progress.update(tries, plural(len(candidate.faults), "fault"))
            return run_plan(candidate, mutant=mutant, until_ms=until_ms).rule

        return shrink(
            plan,
            violation.rule,
            fails,
            broke_at_ms=violation.at_ms,
            tries_max=TRIES_MAX,
            expired=lambda: time.monotonic() >= deadline,
        )


def as_json(plan: Plan, shrunk: Shrunk, result: SeedResult, path: Path) -> dict[str, object]:
    return {
        "seed": plan.seed,
        "rule": shrunk.rule,
        "text": result.violations[0].text if result.violations else "",
        "tries": shrunk.tries,
        "faults_before": len(plan.faults),
        "faults": [fault._asdict() for fault in shrunk.plan.faults],
        "brokers_before": plan.brokers,
        "brokers": shrunk.plan.brokers,
        "file": str(path),
        "replay": f"tidelog sim replay {path}",
    }


def print_text(plan: Plan, shrunk: Shrunk, result: SeedResult, path: Path) -> None:
    small = shrunk.plan
    click.echo(
        f"seed {plan.seed} broke {shrunk.rule}; {plural(shrunk.tries, 'smaller plan')} tried"
    )
    click.echo(
        f"  {len(plan.faults)} → {plural(len(small.faults), 'fault')} · "
        f"{plan.brokers} → {plural(small.brokers, 'broker')} · "
        f"{plan.duration_ms / 1000:g} → {small.duration_ms / 1000:g} s before healing"
    )
    for fault in small.faults:
        text = describe_fault(fault, [topic.name for topic in small.topics])
        click.echo(f"  {fault.at_ms / 1000:8.3f}s  {text}")
    if result.violations:
        click.echo(f"  {result.violations[0].text}")
    click.echo(f"written to {path}; replay: tidelog sim replay {path}")
