"""`tidelog sim campaign`: seeds collected over many runs, in one table."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog import __version__
from tidelog.cli.failure import INTERRUPTED, OK, USAGE, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import count, duration, plural, print_json, table, tally
from tidelog.cli.progress import Progress
from tidelog.cli.sim import report
from tidelog.cli.sim.options import jobs_option
from tidelog.cli.sim.run import run_with_progress, tell
from tidelog.cli.spark_options import spark_options
from tidelog.host.directory_lock import DirectoryLock
from tidelog.sim.campaign import CampaignError, CampaignTable, Figures, Row, Summary, summary
from tidelog.sim.fleet import Finished, FleetReport, Orders
from tidelog.sim.nodes.run import run_node_seed

WRITE_EVERY_SECONDS = 20.0
"""What a killed process may lose. Ctrl-C loses nothing."""
FAILURES_SHOWN = 20


class CampaignOptions(NamedTuple):
    """The command's options, as click found them."""

    directory: Path
    seeds: int | None
    minutes: float | None
    first: int
    jobs: int
    report: bool
    spark_url: str | None
    conf: dict[str, str]
    output: str


@click.command(name="campaign")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--seeds", type=click.IntRange(min=1), help="Run so many more seeds.")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), help="More seeds for so long."
)
@click.option("--first", type=click.IntRange(min=0), default=0, help="Lowest seed to run.")
@jobs_option
@click.option("--report", is_flag=True, help="Run nothing, show what was collected.")
@spark_options
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Run whole-node seeds and keep what they came to in the table in DIR.

    \b
    Examples:
      tidelog sim campaign results --seeds 10000
      tidelog sim campaign results --minutes 30 --jobs 2
      tidelog sim campaign results --seeds 100000 --master spark://host:7077
      tidelog sim campaign results --report

    A campaign goes on with the lowest seed that this commit has not run. Ctrl-C loses nothing
    that was finished; a killed process loses what it did in its last 20 seconds. Ends with exit
    code 5 if a rule was broken.
    """
    options = CampaignOptions(**given)
    _check(options)
    campaign = CampaignTable(options.directory)
    try:
        code = OK if options.report else _run(campaign, options)
        collected = summary(campaign.rows())
    except CampaignError as reason:
        raise CommandError(
            "the table is damaged",
            why=str(reason),
            advice="move that file away; its seeds are run again",
        ) from None
    if options.output == "json":
        print_json(as_json(collected))
    else:
        print_text(collected, options.directory)
    context.exit(code)


def _check(options: CampaignOptions) -> None:
    asked = [options.seeds is not None, options.minutes is not None, options.report]
    if sum(asked) != 1:
        raise CommandError(
            "exactly one of --seeds, --minutes and --report is needed",
            why="a campaign runs so many seeds or for so long, or shows what was collected",
            advice=f"tidelog sim campaign {options.directory} --seeds 1000",
            code=USAGE,
        )
    if options.spark_url is not None and options.seeds is None:
        raise CommandError(
            "--master without --seeds",
            why="a number of seeds is spread over a Spark cluster",
            advice=f"tidelog sim campaign {options.directory} --seeds 1000 "
            f"--master {options.spark_url}",
            code=USAGE,
        )
    if options.report and not options.directory.is_dir():
        raise CommandError(
            f"there is no directory {options.directory}",
            why="nothing was collected there",
            advice=f"tidelog sim campaign {options.directory} --seeds 1000",
        )


# -- running


class Recorder:
    """Writes rows into the table now and then, and all of them in the end."""

    __slots__ = ("_campaign", "_commit", "_last", "_waiting")

    def __init__(self, campaign: CampaignTable, commit: str) -> None:
        self._campaign = campaign
        self._commit = commit
        self._waiting: list[Row] = []
        self._last = time.monotonic()

    def note(self, finished: Finished) -> None:
        replay = report.replay_command(finished.result.seed)
        self._waiting.append(Row.of(finished, self._commit, replay))
        if time.monotonic() - self._last >= WRITE_EVERY_SECONDS:
            self.write()

    def write(self) -> None:
        self._last = time.monotonic()
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._campaign.append(waiting)


def _run(campaign: CampaignTable, options: CampaignOptions) -> int:
    commit = commit_of_this_code()
    with _alone_in(options.directory):
        orders = Orders(
            first=options.first,
            seeds=options.seeds,
            jobs=options.jobs,
            seconds=None if options.minutes is None else 60 * options.minutes,
            done=campaign.seeds_of(commit),
        )
        recorder = Recorder(campaign, commit)
        collected = FleetReport(on_finished=recorder.note)
        try:
            _run_fleet(orders, options, collected)
        finally:
            recorder.write()
    if collected.interrupted:
        return INTERRUPTED
    return VIOLATION if collected.failures else OK


def _run_fleet(orders: Orders, options: CampaignOptions, collected: FleetReport) -> None:
    if options.spark_url is None:
        run_with_progress(orders, run_node_seed, "seeds", collected)
        return
    from tidelog.cli.sim.on_spark import Cluster, run_on_spark

    cluster = Cluster(options.spark_url, options.conf)
    with Progress("seeds", orders.seeds) as progress:
        run_on_spark(cluster, orders, run_node_seed, partial(tell, progress), collected)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock(directory)
    if not lock.acquire():
        raise CommandError(
            f"another campaign is running in {directory}",
            why="two of them would run the same seeds",
            advice="wait for it, or use another directory",
        )
    try:
        yield
    finally:
        lock.release()


def commit_of_this_code() -> str:
    """Of the checkout that runs, with a digest of what differs from it; without one, the version.

    A row is worth nothing if nobody knows which code it is about."""
    source = Path(__file__).parents[2]
    try:
        _git(source, "ls-files", "--error-unmatch", "__init__.py")  # not a checkout of others
        commit = _git(source, "rev-parse", "--short=12", "HEAD").strip()
        changes = _git(source, "diff", "HEAD", "--", ".")
        new = _git(source, "ls-files", "--others", "--exclude-standard", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return f"version {__version__}"
    text = changes + "".join((source / each).read_text("utf-8") for each in new.split("\n") if each)
    return f"{commit}+{blake2b(text.encode(), digest_size=4).hexdigest()}" if text else commit


def _git(directory: Path, *words: str) -> str:
    return subprocess.run(  # noqa: S603 - words of our own
        ["git", *words],  # noqa: S607 - whichever git is there
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


# -- showing


def figures_json(figures: Figures) -> dict[str, Any]:
    return {
        "seeds": figures.seeds,
        "steps": figures.steps,
        "simulated_seconds": figures.simulated_ms / 1000,
        "busy_seconds": round(figures.busy_ns / 1e9, 3),
        "steps_per_second": round(figures.steps_per_second),
        "acknowledged": figures.acknowledged,
        "lost": figures.lost,
        "faults": dict(sorted(figures.faults.items())),
        "marks": dict(sorted(figures.marks.items())),
        "findings": [
            {
                "commit": row.commit,
                "seed": row.seed,
                **row.findings[0]._asdict(),
                "replay": row.replay,
            }
            for row in figures.failed
        ],
    }


def as_json(collected: Summary) -> dict[str, Any]:
    return {
        **figures_json(collected.total),
        "commits": {name: figures_json(each) for name, each in collected.commits.items()},
    }


def print_text(collected: Summary, directory: Path) -> None:
    total = collected.total
    rows = [_cells(name, each) for name, each in collected.commits.items()]
    if len(rows) != 1:
        rows.append(_cells("all", total))
    table(("commit", "seeds", "steps", "simulated", "faults", "marks", "findings", "busy"), rows)
    click.echo(f"faults  {tally(total.faults)}")
    click.echo(f"marks   {tally(total.marks)}")
    click.echo(
        f"{count(total.acknowledged)} acknowledged, {count(total.lost)} lost · "
        f"{count(total.steps_per_second)} steps/s per core"
    )
    for row in total.failed[:FAILURES_SHOWN]:
        click.echo(f"seed {row.seed} of {row.commit} broke {row.findings[0].rule}")
        click.echo(f"  {row.findings[0].text}")
        click.echo(f"  replay: {row.replay}")
    if len(total.failed) > FAILURES_SHOWN:
        click.echo(f"and {plural(len(total.failed) - FAILURES_SHOWN, 'seed')} more with -o json")
    click.echo(f"more: tidelog sim campaign {directory} --seeds 1000")


def _cells(name: str, figures: Figures) -> tuple[str, ...]:
    return (
        name,
        count(figures.seeds),
        count(figures.steps),
        duration(figures.simulated_ms / 1000),
        count(figures.faults.total()),
        count(len(figures.marks)),
        count(len(figures.failed)),
        duration(figures.busy_ns / 1e9),
    )
