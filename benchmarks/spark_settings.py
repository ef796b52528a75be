"""Sessions of Spark with different settings read the same topic in turns: A B A B.

Settings of a session are known from its start, so each side has a Java machine of its own, which
does nothing while the others read. Told are elapsed seconds and processor seconds, those of the
brokers included.

    python benchmarks/spark_settings.py \\
        --side tcp spark.python.unix.domain.socket.enabled=false \\
        --side socket spark.python.unix.domain.socket.enabled=true \\
        --side packed packPartitions=true

What begins with `spark.` is a setting of the session, `format=kafka` means the stock connector,
everything else is an option of the source.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from spark import OURS, PARTITIONS, Load, fill, noop, processor_seconds, session
from tidelog.bench.compare.tidelog_side import TidelogSystem
from tidelog.wire.records import CODEC_NAMES

READY = "ready"
WARM_ROUNDS = 2


class Setting(NamedTuple):
    """One side: what its session and its reader are told."""

    name: str
    conf: dict[str, str]
    options: dict[str, str]
    connector: str


def setting_of(words: list[str]) -> Setting:
    name, *pairs = words
    told = dict(pair.split("=", 1) for pair in pairs)
    connector = told.pop("format", OURS)
    conf = {key: told.pop(key) for key in list(told) if key.startswith("spark.")}
    return Setting(name, conf, told, connector)


# ---- a session in a process of its own ----


def serve(conf: dict[str, str]) -> None:
    """Reads what it is told on stdin, one line of JSON for each read, and says what it took."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with tempfile.TemporaryDirectory(prefix="tidelog-spark-settings-") as scratch:
        spark = session(Path(scratch), os.cpu_count() or 1, conf)
        print(READY, file=answers, flush=True)
        for line in sys.stdin:
            connector, options = json.loads(line)
            before, begin = processor_seconds(), time.perf_counter()
            noop(spark.read.format(connector).options(**options).load())
            took = time.perf_counter() - begin, processor_seconds() - before
            print(json.dumps(took), file=answers, flush=True)
        spark.stop()


class Session:
    """The other end of `serve`."""

    def __init__(self, conf: dict[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, __file__, "--serve", json.dumps(conf)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        while self._line() != READY:
            pass  # Spark says things at its start

    def read(self, connector: str, options: dict[str, str]) -> tuple[float, float]:
        assert self._process.stdin is not None, "made with a pipe"
        self._process.stdin.write(json.dumps([connector, options]) + "\n")
        self._process.stdin.flush()
        elapsed, processor = json.loads(self._line())
        return elapsed, processor

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None, "made with a pipe"
        line = self._process.stdout.readline()
        assert line, f"the session ended with {self._process.wait()}"
        return line.strip()


# ---- in turns ----


def measure(settings: list[Setting], load: Load, rounds: int) -> dict[str, list[Any]]:
    taken: dict[str, list[Any]] = {each.name: [] for each in settings}
    sessions: dict[str, Session] = {}
    with TidelogSystem().start() as cluster:
        fill(cluster, load)
        try:
            for each in settings:
                key = json.dumps(each.conf, sort_keys=True)
                if key not in sessions:
                    sessions[key] = Session(each.conf)
            for number in range(rounds + WARM_ROUNDS):
                for each in settings:
                    options = {
                        "kafka.bootstrap.servers": cluster.bootstrap_servers,
                        "subscribe": load.topic,
                        **each.options,
                    }
                    before = cluster.cpu_seconds()
                    key = json.dumps(each.conf, sort_keys=True)
                    elapsed, processor = sessions[key].read(each.connector, options)
                    processor += cluster.cpu_seconds() - before
                    if number >= WARM_ROUNDS:
                        taken[each.name].append((elapsed, processor))
        finally:
            for one in sessions.values():
                one.close()
    return taken


def line_of(name: str, found: list[Any], base: list[Any]) -> str:
    parts = [f"{name:16}"]
    for words, at in (("elapsed", 0), ("processor", 1)):
        values = [each[at] for each in found]
        ratio = statistics.median(
            ours[at] / theirs[at] for ours, theirs in zip(found, base, strict=True)
        )
        shown = " ".join(f"{each:.2f}" for each in values)
        parts.append(f"{words} {statistics.median(values):5.2f} s ({shown}), {ratio:.2f} ×")
    return "  ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", action="append", nargs="+", metavar="WORD", help="see above")
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--value-bytes", type=int, default=1024)
    parser.add_argument("--codec", default="none", choices=sorted(CODEC_NAMES.values()))
    parser.add_argument(
        "--rounds", type=int, default=5, help=f"after {WARM_ROUNDS} that are not told"
    )
    parser.add_argument("--serve", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve)
        return
    codec = next(code for code, name in CODEC_NAMES.items() if name == arguments.codec)
    load = Load(arguments.rows, arguments.value_bytes, codec)
    settings = [setting_of(words) for words in arguments.side]
    taken = measure(settings, load, arguments.rounds)
    base = taken[settings[0].name]
    print(f"{load.rows} records of {load.label} in {PARTITIONS} partitions; × is by the first side")
    for each in settings:
        print(line_of(each.name, taken[each.name], base), flush=True)


if __name__ == "__main__":
    main()
