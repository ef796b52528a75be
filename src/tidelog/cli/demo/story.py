"""The whole story of `tidelog demo`: a cluster, a producer, Spark, a killed leader, the proof."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tidelog.audit.replica_comparison import DIVERGING, Comparison
from tidelog.audit.replicas import (
    LivePartition,
    TopicPartition,
    ask_live,
    audit_here,
    work_of,
)
from tidelog.cli import session
from tidelog.cli.demo import accounts, report
from tidelog.cli.demo.book import totals
from tidelog.cli.demo.facts import Facts, Killed, Replicas, Returned, Sold
from tidelog.cli.demo.orders import Shop
from tidelog.cli.demo.selling import Selling, longest_silence_ms
from tidelog.cli.demo.spark_queries import KeptQuery
from tidelog.cli.demo.spark_session import log_tail, spark_in
from tidelog.cli.demo.till import Till
from tidelog.cli.demo.verdict import Accounts, judge
from tidelog.cli.failure import ERROR, OK, UNREACHABLE, VIOLATION, CommandError
from tidelog.cli.local.up import interrupts
from tidelog.cli.sim.options import available_cores
from tidelog.client import Client, ClientError, PartitionView
from tidelog.client.offsets import LATEST, find_offset
from tidelog.cluster.nodes import NodeFailed
from tidelog.host.ports import NetworkError
from tidelog.replica_files import DataDirectory
from tidelog.spark.failure import TidelogError
from tidelog.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKERS = 3
PARTITIONS = 6
KILL_AT, RESTART_AT = 0.4, 0.65
"""Shares of the orders."""
CATCH_UP_SECONDS = 90.0
LABEL_WIDTH = 10

Tell = Callable[[str, str], None]
"""(what part, one line about it)"""


class Plan(NamedTuple):
    orders: int
    seconds: float
    minutes: int = 30
    """Of the shop's own time, which runs faster than the clock."""


def run(context: click.Context, plan: Plan, *, report_dir: Path, keep: bool) -> None:
    quiet = session.current().as_json
    begin = time.monotonic()

    def tell(part: str, line: str) -> None:
        if not quiet:
            click.echo(f"{time.monotonic() - begin:5.1f} s  {part.ljust(LABEL_WIDTH)}{line}")

    with interrupts(), workspace(keep=keep) as home, told_errors(home):
        facts = Story(plan, home, tell).run()
        files = report.draw(facts, report_dir)
    report.show(facts, files, seconds=time.monotonic() - begin, as_json=quiet)
    context.exit(exit_code(facts))


def exit_code(facts: Facts) -> int:
    return OK if facts.holds else VIOLATION


@contextmanager
def workspace(*, keep: bool) -> Iterator[Path]:
    """Everything that a run writes, beside the report. Nothing of it is left."""
    home = Path(tempfile.mkdtemp(prefix="tidelog-demo-"))
    try:
        yield home
    finally:
        if keep:
            click.echo(f"kept: {home}", err=True)
        else:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def told_errors(home: Path) -> Iterator[None]:
    """What may go wrong on the way, in one line each."""
    advice = "tidelog demo --keep, and the logs that are left"
    try:
        yield
    except NodeFailed as failure:
        for line in failure.last_lines:
            click.echo(f"  node {failure.node_id} │ {line}", err=True)
        raise CommandError(str(failure), why=failure.why, advice=advice, code=UNREACHABLE) from None
    except TidelogError as error:
        for line in log_tail(home):
            click.echo(f"  spark │ {line}", err=True)
        raise CommandError("a query failed", why=error.what, advice=error.advice) from None
    except TimeoutError as error:
        what = "the demo did not get on"
        raise CommandError(what, why=str(error), advice=advice, code=ERROR) from None
    except (ClientError, NetworkError) as error:
        what = "the cluster did not answer"
        raise CommandError(what, why=str(error), advice=advice, code=ERROR) from None


class Story:
    """One run, step by step. Everything it starts ends with it."""

    __slots__ = ("_cluster", "_home", "_plan", "_shop", "_tell")

    def __init__(self, plan: Plan, home: Path, tell: Tell) -> None:
        self._plan = plan
        self._shop = Shop(plan.orders, plan.minutes)
        self._home = home
        self._tell = tell
        self._cluster = Cluster(BROKERS, directory=home / "cluster")

    def run(self) -> Facts:
        begin = time.monotonic()
        with self._cluster:
            ready_ms = (time.monotonic() - begin) * 1000
            self._tell("cluster", f"{BROKERS} brokers, ready in {ready_ms / 1000:.1f} s")
            for topic in ("orders", "revenue"):
                self._cluster.topic(topic, PARTITIONS, BROKERS)
            self._tell("spark", "starts; it takes some seconds")
            with spark_in(self._home) as spark:
                return self._with_spark(spark, ready_ms)

    def _with_spark(self, spark: "SparkSession", ready_ms: float) -> Facts:
        begin = time.monotonic()
        till = Till(self._cluster.bootstrap_servers, "orders", self._shop, self._plan.seconds)
        selling = Selling(till)
        revenue, table = queries = self._start_queries(spark)
        for query in queries:
            query.wait_until(lambda each: each.flow().rows > 0, CATCH_UP_SECONDS)
        spark_ms = (time.monotonic() - begin) * 1000
        self._tell("spark", f"both queries read the first orders after {spark_ms / 1000:.1f} s")
        self._open(selling)
        killed = self._kill_leader(selling)
        returned = self._restart(selling, killed)
        sold = self._finish(selling)
        caught_up_ms = self._catch_up(revenue, table)
        flows = revenue.flow(), table.flow()
        for query in queries:
            query.stop()
        found = self._accounts(spark, selling)
        replicas = self._compare_replicas()
        return Facts(
            ready_ms,
            spark_ms,
            sold,
            killed,
            returned,
            caught_up_ms,
            *flows,
            list(found.revenue),
            found.closes_ms,
            replicas,
            judge(found),
        )

    # ---- the start ----

    def _start_queries(self, spark: "SparkSession") -> tuple[KeptQuery, KeptQuery]:
        from tidelog.spark.pipelines import revenue
        from tidelog.spark.table_sink import register_table_sink

        register_table_sink(spark)
        servers, checkpoints = self._cluster.bootstrap_servers, self._home / "checkpoints"
        orders = revenue.read_orders(spark, servers)
        per_minute = revenue.revenue_per_minute(orders)
        queries = (
            KeptQuery(
                "orders → revenue per minute → topic",
                lambda: revenue.publish(per_minute, servers, str(checkpoints / "revenue")),
            ),
            KeptQuery(
                "orders → Delta table",
                lambda: revenue.keep(orders, self._table, str(checkpoints / "table")),
            ),
        )
        self._tell("spark", " · ".join(query.name for query in queries))
        return queries

    @property
    def _table(self) -> str:
        return str(self._home / "table")

    def _open(self, selling: Selling) -> None:
        plan = self._plan
        self._tell(
            "orders",
            f"{plan.orders:,} orders of {plan.minutes} minutes in {plan.seconds:.0f} s, by "
            f"customer into {PARTITIONS} partitions on {BROKERS} brokers, acks=all",
        )
        selling.open()

    # ---- the kill and the return ----

    def _kill_leader(self, selling: Selling) -> Killed:
        selling.reach(int(self._plan.orders * KILL_AT))
        leaders = {each.partition: each.leader for each in self._partitions()}
        victim = leaders[0]
        assert victim is not None, "a partition that is written to has no leader"
        led = [partition for partition, leader in leaders.items() if leader == victim]
        names = ", ".join(f"orders-{each}" for each in led)
        killed_at = time.monotonic()
        self._cluster.kill(victim)
        self._tell("kill", f"SIGKILL to broker {victim}, leader of {names}")
        self._cluster.wait(
            lambda: all(
                each.leader not in (None, victim)
                for each in self._partitions()
                if each.partition in led
            )
        )
        elected_at = time.monotonic()
        selling.reach(selling.acknowledged + self._plan.orders // 20)
        silence_ms = longest_silence_ms(list(selling.book.answers), killed_at, elected_at)
        killed = Killed(victim, led, killed_at, (elected_at - killed_at) * 1000, silence_ms)
        self._tell(
            "election",
            f"new leaders after {killed.election_ms:.0f} ms; no partition without an "
            f"acknowledgement for longer than {silence_ms:.0f} ms",
        )
        return killed

    def _restart(self, selling: Selling, killed: Killed) -> Returned:
        selling.reach(int(self._plan.orders * RESTART_AT))
        begin = time.monotonic()
        self._cluster.start(killed.node_id)
        self._cluster.wait_ready([killed.node_id])
        self._cluster.wait(lambda: all(len(each.isr) == BROKERS for each in self._partitions()))
        in_sync_ms = (time.monotonic() - begin) * 1000
        self._tell(
            "return",
            f"broker {killed.node_id} started again, in sync everywhere after "
            f"{in_sync_ms / 1000:.1f} s",
        )
        return Returned(begin, in_sync_ms)

    def _partitions(self) -> tuple[PartitionView, ...]:
        async def look(client: Client) -> tuple[PartitionView, ...]:
            return (await client.topic("orders")).partitions

        return self._cluster.ask(look)

    # ---- the end ----

    def _finish(self, selling: Selling) -> Sold:
        book = selling.finish()
        assert selling.ended is not None, "it is finished and has not ended"
        seconds = selling.ended - selling.began
        self._tell("sold", f"{len(book.acknowledged):,} orders acknowledged in {seconds:.1f} s")
        acknowledged = totals(book.acknowledged)
        return Sold(selling.began, seconds, book.answers, acknowledged, book.failures)

    def _catch_up(self, revenue: KeptQuery, table: KeptQuery) -> float:
        begin = time.monotonic()
        ends, closes_ms = self._ends("orders"), self._shop.closes_ms
        for query in (revenue, table):
            query.wait_until(lambda each: each.has_read("orders", ends), CATCH_UP_SECONDS)
        revenue.wait_until(lambda each: each.watermark_ms >= closes_ms, CATCH_UP_SECONDS)
        caught_up_ms = (time.monotonic() - begin) * 1000
        restarts = revenue.restarts + table.restarts
        again = f" (Spark failed {restarts} times and was started again)" if restarts else ""
        self._tell("caught up", f"both queries, {caught_up_ms / 1000:.1f} s later{again}")
        return caught_up_ms

    def _ends(self, topic: str) -> dict[int, int]:
        async def look(client: Client) -> dict[int, int]:
            return {
                partition: (await find_offset(client, topic, partition, LATEST)).offset
                for partition in range(PARTITIONS)
            }

        return self._cluster.ask(look)

    def _accounts(self, spark: "SparkSession", selling: Selling) -> Accounts:
        servers = self._cluster.bootstrap_servers
        book = selling.book
        found = Accounts(
            acknowledged=book.acknowledged,
            in_doubt=frozenset(book.in_doubt),
            topic=accounts.in_topic(spark, servers),
            table=accounts.in_table(spark, self._table),
            revenue=accounts.in_revenue(spark, servers),
            closes_ms=self._shop.closes_ms,
        )
        self._tell("accounts", "topic, table and revenue are read back")
        return found

    def _compare_replicas(self) -> Replicas:
        """Of every topic, also of those that the cluster and Spark's sink keep for themselves."""
        directories = [
            DataDirectory(self._cluster.data_dir(each), each) for each in self._cluster.brokers
        ]
        partitions = sorted({name for each in directories for name in each.partitions()})

        async def look(client: Client) -> dict[TopicPartition, LivePartition]:
            return await ask_live(client, partitions)

        work = work_of(directories, partitions, self._cluster.ask(look))
        found: list[Comparison] = []
        begin = time.monotonic()
        audit_here(work, available_cores(), found.append, lambda _: None)
        return Replicas(
            len(found),
            sum(each.bytes_read for each in found),
            time.monotonic() - begin,
            [each.told() for each in found if each.verdict == DIVERGING],
        )
