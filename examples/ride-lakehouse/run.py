"""The whole story: `python run.py --rate 50000 --seconds 60`. README.md tells it.

Exit code 5 if anything is wrong, 1 if a step failed, 130 after Ctrl-C.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

from accounts import judge, left_out, read_table, window_of
from commands import Background, Bench, StepError
from picture import draw
from report import Facts, document, print_report
from rides import AVRO, JSON_BY_MISTAKE, MINUTE_MS, STARTS_MS, Events, Size, make_events
from topics import read_all

BROKERS = 3
PARTITIONS = 6
FIRST_EVENTS = LAST_EVENTS = 300
"""Written before and after the rest: jobs have something to read when they start, and again after
they were killed, however soon the rest was written."""
KILL_BROKER_AT, START_BROKER_AT, KILL_DRIVERS_AT = 0.2, 0.35, 0.7
START_SECONDS = 180
CATCH_UP_SECONDS = 900
STEP_SECONDS = 120
WRONG = 5
OK = 200


class Job:
    """One Spark job, which may be killed and started again."""

    def __init__(self, name: str, bench: Bench, *words: object, program: str | None = None) -> None:
        self.name = name
        self._bench, self._words, self._program = bench, words, program
        self.lives: list[Background] = []
        self.start()

    def start(self) -> None:
        if self._program is None:
            self.lives.append(self._bench.start_tidelog(self.name, *self._words))
        else:
            self.lives.append(self._bench.start_program(self._program, *self._words))

    @property
    def batches(self) -> list[tuple[float, dict]]:
        return [each for life in self.lives for each in life.said if "batch" in each[1]]

    def wait_for(self, ends: dict[str, int], seconds: float) -> None:
        """Until it has committed everything below these offsets."""
        now = self.lives[-1]

        def has_read() -> bool:
            read = now.last("offsets") or {}
            return all(read.get(name, 0) >= end for name, end in ends.items())

        now.wait_until(has_read, "it had read everything", seconds)

    def wait_for_watermark(self, at_ms: int, seconds: float) -> None:
        wanted = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1000))

        def has_passed() -> bool:
            return str(self.lives[-1].last("watermark") or "") >= wanted

        self.lives[-1].wait_until(has_passed, "the watermark was past the day", seconds)


class Story:
    def __init__(self, size: Size, bench: Bench) -> None:
        self._bench = bench
        self._began = time.monotonic()
        self._events_file = bench.home / "events.npz"
        self._events = self._plan(size)
        self._size = size
        self._table = bench.home / "lake" / "rides"
        self.marks: dict[str, float] = {}
        """When things happened, in times of time.time()."""

    def tell(self, part: str, line: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {part:<10}{line}", flush=True)

    def _plan(self, size: Size) -> Events:
        events = make_events(size)
        events.save(self._events_file)
        self.tell("rides", f"{events.count:,} events of {events.count // 3:,} rides are planned")
        return events

    def run(self) -> Facts:
        self._start_cluster()
        self._start_jobs()
        self._write_day()
        self._close_day()
        self._repair()
        for job in (self._archive, self._revenue):
            job.lives[-1].stop()
        return self._accounts()

    # ---- everything starts

    def _start_cluster(self) -> None:
        ready = self._bench.home / "ready.json"
        up = ("--detach", "--port", 0, "--no-console", "--ready-file", ready)
        self._bench.tidelog("up", "--brokers", BROKERS, *up)
        self._servers = json.loads(ready.read_text("utf-8"))["bootstrap_servers"]
        for topic, partitions in (
            ("rides", PARTITIONS),
            ("rides.repaired", PARTITIONS),
            ("zone-revenue", 1),
        ):
            self._bench.tidelog("topic", "create", topic, "-p", partitions)
        registry = self._bench.start_tidelog("registry", "registry", "start", "--port", 0)
        line = registry.log_line("registry on http://", STEP_SECONDS)
        self._registry = line.partition("registry on ")[2].partition(",")[0]
        self._until(self._registry_answers, "a registry that answers")
        self.tell("cluster", f"{BROKERS} brokers, rides in {PARTITIONS} partitions, and a registry")

    def _registry_answers(self) -> bool:
        try:
            with urlopen(f"{self._registry}/health", timeout=STEP_SECONDS) as answer:
                return answer.status == OK
        except OSError:
            return False  # also a status that says: not yet

    def _start_jobs(self) -> None:
        self._write("stream", end=FIRST_EVENTS)
        self._archive = Job(
            "archive",
            self._bench,
            *("pipeline", "archive", "rides", "--to", self._table, "-o", "json"),
            *("--value-format", "avro", "--registry", self._registry),
            *("--on-bad-record", "dead-letter", "--conf", "spark.ui.enabled=false"),
        )
        checkpoint = self._bench.home / "zone-revenue"
        words = (self._servers, self._registry, checkpoint)
        self._revenue = Job("zone_revenue", self._bench, *words, program="zone_revenue.py")
        self.tell("spark", "starts two jobs; it takes some seconds")
        self._wait_for_jobs(START_SECONDS)
        self.tell("spark", "rides → Delta table · rides → revenue per zone and minute → topic")

    def _write(self, part: str, *, start: int = 0, end: int | None = None) -> dict:
        """A part of the events, to its end."""
        writer = self._start_writer(part, start, end)
        writer.wait(STEP_SECONDS)
        return writer.said[-1][1]

    def _start_writer(self, part: str, start: int, end: int | None) -> Background:
        return self._bench.start_program(
            "producer.py",
            *("--events", self._events_file, "--servers", self._servers),
            *("--registry", self._registry, "--rate", self._size.rate, "--part", part),
            *("--start", start, *(() if end is None else ("--end", end))),
        )

    def _wait_for_jobs(self, seconds: float) -> None:
        ends = {f"rides-{each['partition']}": each["high_watermark"] for each in self._partitions()}
        for job in (self._archive, self._revenue):
            job.wait_for(ends, seconds)

    def _partitions(self) -> list[dict]:
        (topic,) = json.loads(self._bench.tidelog("topic", "describe", "rides", "-o", "json"))
        return topic["partitions"]

    # ---- the day

    def _write_day(self) -> None:
        end = int((self._events.written_as <= JSON_BY_MISTAKE).sum()) - LAST_EVENTS
        count = end - FIRST_EVENTS
        self._writer = self._start_writer("stream", FIRST_EVENTS, end)
        rate = f"{self._size.rate:,} a second for {self._size.seconds} s"
        self.tell("rides", f"{count:,} events, {rate}, Avro, acks=all, {self._late()} of them late")
        self._reach(1)
        self.marks["began"] = time.time()
        self._reach(count * KILL_BROKER_AT)
        victim = self._kill_leader()
        self._reach(count * START_BROKER_AT)
        self._start_again(victim)
        self._reach_schema()
        self._reach(count * KILL_DRIVERS_AT)
        self._kill_drivers()
        self._writer.wait(CATCH_UP_SECONDS)
        self.marks["ended"], self._written = self._writer.said[-1]
        self._write("stream", start=end)
        rate = self._written["acknowledged"] / self._written["seconds"]
        self.tell("rides", f"{self._written['acknowledged']:,} acknowledged, {rate:,.0f} a second")
        self._wait_for_jobs(CATCH_UP_SECONDS)
        self._behind = time.time() - self.marks["ended"]
        self.tell("spark", f"both jobs have read everything, {self._behind:.1f} s later")

    def _late(self) -> str:
        return f"{int((self._events.late & (self._events.written_as == AVRO)).sum()):,}"

    def _reach(self, count: float) -> None:
        def reached() -> bool:
            return int(str(self._writer.last("acknowledged") or 0)) >= count

        self._writer.wait_until(reached, f"{count:,.0f} events were there", CATCH_UP_SECONDS)

    def _kill_leader(self) -> int:
        victim = int(self._partitions()[0]["leader"])
        led = [each["partition"] for each in self._partitions() if each["leader"] == victim]
        self._bench.tidelog("chaos", "kill", victim)
        self.marks["broker killed"] = time.time()
        names = ", ".join(f"rides-{each}" for each in led)
        self.tell("kill", f"SIGKILL to broker {victim}, leader of {names}")
        self._until(
            lambda: all(each["leader"] not in (None, victim) for each in self._partitions()),
            "other leaders",
        )
        self.tell("kill", "every partition has another leader; the producer goes on")
        self._led = led
        return victim

    def _start_again(self, victim: int) -> None:
        self._bench.tidelog("chaos", "restart", victim)
        self._until(
            lambda: all(len(each["isr"]) == BROKERS for each in self._partitions()),
            "cluster that is in sync",
        )
        self.marks["broker back"] = time.time()
        self.tell("return", f"broker {victim} is back and in sync everywhere")

    def _until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + STEP_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise StepError(f"no {what} within {STEP_SECONDS} s")
            time.sleep(0.2)

    def _reach_schema(self) -> None:
        def told() -> list[float]:
            return [at for at, said in self._writer.said if said.get("schema") == 2]

        self._writer.wait_until(lambda: bool(told()), "version 2 was there", CATCH_UP_SECONDS)
        self.marks["version 2"] = told()[0]
        self.tell("schema", "the app writes version 2 now: congestion_fee_cents is new")

    def _kill_drivers(self) -> None:
        """Both, with the JVM and the workers, and both start again from their checkpoints."""
        jobs = (self._archive, self._revenue)
        self._told_before = {job.name: job.batches[-1][1]["batch"] for job in jobs}
        for job in jobs:
            job.lives[-1].kill()
        self.marks["drivers killed"] = time.time()
        self.tell("kill", "SIGKILL to both Spark drivers, their JVMs and workers")
        for job in jobs:
            job.start()
        self.tell("spark", "both start again from their checkpoints")

    # ---- the end of the day, and what comes after it

    def _close_day(self) -> None:
        self._write("closing")
        last_ms = STARTS_MS + self._size.minutes * MINUTE_MS
        self._revenue.wait_for_watermark(last_ms, CATCH_UP_SECONDS)
        said = self._write("after-closing")
        self.tell("closed", "a ride of an hour later has closed all windows of the day")
        self.tell("late", f"{said['sent']} drop-offs come after that: too late for the windows")

    def _repair(self) -> None:
        words = ("--servers", self._servers, "--registry", self._registry)
        self._wait_for_jobs(CATCH_UP_SECONDS)
        self._letters = json.loads(self._bench.program("repair.py", *words))["repaired"]
        self.tell("letters", f"{self._letters} dead letters: JSON in place of Avro; repaired")
        replay = ("pipeline", "replay-dead-letters", "rides.repaired", "--to", "rides")
        self._bench.tidelog(*replay)
        self.tell("letters", "replayed into rides, each once, where they were")
        self._wait_for_jobs(CATCH_UP_SECONDS)

    def _accounts(self) -> Facts:
        rides = self._events.count // 3
        table = read_table(self._table, rides)
        windows = [window_of(each.value()) for each in read_all(self._servers, "zone-revenue")]
        self.tell("accounts", "Polars has read the table; it is compared with what was driven")
        return Facts(
            size=self._size,
            events=self._events,
            table=table,
            verdict=judge(self._events, table, windows, self._letters),
            left_out=left_out(self._events),
            written=self._written,
            producer=self._writer.said,
            jobs={job.name: job.batches for job in (self._archive, self._revenue)},
            again={
                job.name: next(iter(job.lives[-1].said), (0.0, {"batch": None}))
                for job in (self._archive, self._revenue)
            },
            marks=self.marks,
            led=self._led,
            behind=self._behind,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=50_000, help="events per second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=4711)
    parser.add_argument("--report", type=Path, default=Path("rides-report"), metavar="DIR")
    parser.add_argument("--keep", action="store_true", help="leave the data and the logs there")
    given = parser.parse_args()
    if given.rate < 100 or given.seconds < 10:
        parser.error("at least 100 events a second for 10 seconds")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends as Ctrl-C does
    begin = time.monotonic()
    try:
        with Bench(keep=given.keep) as bench:
            if given.keep:
                print(f"everything is kept in {bench.home}", flush=True)
            facts = Story(Size(given.rate, given.seconds, given.seed), bench).run()
    except StepError as failure:
        print(f"\nNOT DONE: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; nothing is left running", file=sys.stderr)
        return 130
    given.report.mkdir(parents=True, exist_ok=True)
    draw(facts, given.report / "rides.png")
    kept = document(facts)
    (given.report / "rides.json").write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    print_report(facts, given.report, time.monotonic() - begin)
    return 0 if facts.verdict.holds else WRONG


if __name__ == "__main__":
    sys.exit(main())
