"""Architecture and hygiene, kept by tests.

The first half judges the checkout; the second half feeds each check a snippet it must find and
one it must leave alone, because a check that has never failed proves nothing.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.tidy import documents, hygiene, imports, ports, purity, shape
from support.tidy.source import ROOT, Finding, Source, load

SOURCES = load(ROOT, "src/tidelog")
TESTS = load(ROOT, "tests")

ARCHITECTURE = (ROOT / "docs/architecture.md").read_text("utf-8")
NUMBERS = {12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen"}

Check = Callable[[Source], list[Finding]]

CHECKS_OF_ONE_FILE: tuple[Check, ...] = (
    purity.impure_imports,
    purity.impure_calls,
    purity.set_iteration,
    purity.printing,
    ports.leaks,
    shape.too_long,
    shape.too_many_parameters,
    shape.vague_names,
    shape.banned_words,
    shape.missing_docstring,
)

# Assertions per non-trivial function. A floor under what is there: raise it, never lower it.
ASSERT_FLOOR = {"core": 0.4, "storage": 0.15}


def complain(findings: list[Finding]) -> None:
    assert not findings, f"{len(findings)} findings:\n" + "\n".join(map(str, findings))


# ---- the checkout ----


@pytest.mark.parametrize("check", CHECKS_OF_ONE_FILE, ids=lambda check: check.__name__)
def test_every_source_file_passes(check):
    complain([finding for source in SOURCES for finding in check(source)])


def test_imports_only_go_up_the_module_map():
    complain(imports.against_direction(SOURCES))


def test_every_module_is_used():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    scripts = {target.partition(":")[0] for target in project["scripts"].values()}
    complain(imports.dead_modules(SOURCES, TESTS, frozenset({"tidelog.__main__", *scripts})))


def test_every_exception_to_the_ports_is_still_needed():
    for source in SOURCES:
        if source.module in ports.CHOOSES_THE_WORLD:
            assert list(ports.worldly_names(source)), f"{source.path} has no use for it any more"
    modules = {source.module for source in SOURCES}
    assert modules.issuperset(ports.CHOOSES_THE_WORLD)


def test_no_file_of_the_checkout_is_untidy():
    complain(hygiene.untidy_files(ROOT))


def test_documents_speak_of_code_that_exists():
    if not (ROOT / "src/tidelog/sim/nodes/run.py").exists():
        pytest.skip("they describe the simulated world, which is not there yet")
    complain(documents.bad_references(ROOT, SOURCES))


def test_the_map_of_the_architecture_is_the_map_of_the_import_check():
    assert documents.untrue_map(ARCHITECTURE) == []


def test_the_architecture_names_every_pool_of_threads():
    pools = documents.pools_in(SOURCES)
    assert documents.pools_of(ARCHITECTURE) == pools
    assert f"{NUMBERS[len(pools)]} pools" in ARCHITECTURE


def test_no_walk_of_the_architecture_has_more_than_twelve_steps():
    walks = ARCHITECTURE.split("## Walk ")[1:]
    assert len(walks) == 3
    for walk in walks:
        steps = re.findall(r"^(\d+)\. ", walk.partition("\n## ")[0], re.MULTILINE)
        assert steps == [str(number) for number in range(1, len(steps) + 1)]
        assert 1 < len(steps) <= 12, walk.partition("\n")[0]


@pytest.mark.parametrize("package", ASSERT_FLOOR)
def test_the_code_states_what_it_relies_on(package):
    density = shape.assert_density(SOURCES, package)
    if not density.functions:
        pytest.skip(f"{package} does not exist yet")
    assert density.ratio >= ASSERT_FLOOR[package], density


def test_nothing_runs_with_assertions_turned_off():
    if not (ROOT / "src/tidelog/cli/main.py").exists():
        pytest.skip("there is no command line yet")
    module = "tidelog" if (ROOT / "src/tidelog/__main__.py").exists() else "tidelog.cli.main"
    refused = subprocess.run(
        [sys.executable, "-O", "-m", module, "--version"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode != 0, refused.stdout
    assert "python -O" in refused.stderr


# ---- the checks themselves ----


class Example(NamedTuple):
    check: Check
    path: str
    text: str
    finding: str | None
    """A part of what must be said about the last line of the text; None: nothing may be said."""


CORE = "src/tidelog/core/example.py"
SIM = "src/tidelog/sim/example.py"
BROKER = "src/tidelog/broker/example.py"
STORAGE = "src/tidelog/storage/example.py"
CLI = "src/tidelog/cli/example.py"
SIMULATED = "src/tidelog/testing/simulated/example.py"
BROKER = "src/tidelog/broker/example.py"

EXAMPLES = (
    Example(purity.impure_imports, CORE, "import time", "time.*"),
    Example(purity.impure_imports, CORE, "from os import path", "os.path"),
    Example(purity.impure_imports, CORE, "def f():\n    import asyncio", "asyncio.*"),
    Example(purity.impure_imports, CORE, "import random\nrandom.Random(4711)", "random.Random"),
    Example(purity.impure_imports, STORAGE, "import os.path as p\np.join('a')", "os.join"),
    Example(purity.impure_imports, SIM, "import random\nrandom.random()", "random.random"),
    Example(purity.impure_imports, SIM, "import random\nrandom.Random(4711)", None),
    Example(purity.impure_imports, SIM, "from time import monotonic", "time.monotonic"),
    Example(purity.impure_imports, "src/tidelog/sim/fleet.py", "import time", None),
    Example(purity.impure_imports, CLI, "import time", None),
    Example(purity.impure_imports, SIMULATED, "import asyncio\nasyncio.run(x)", "asyncio.run"),
    Example(purity.impure_imports, SIMULATED, "import asyncio\nasyncio.current_task()", None),
    Example(purity.impure_calls, CORE, "x = 'a'\nhash(x)", "hash()"),
    Example(purity.impure_calls, STORAGE, "open('x')", "open()"),
    Example(purity.impure_calls, STORAGE, "disk.open('x')", None),
    Example(purity.impure_calls, SIM, "key = id(object())", "id()"),
    Example(purity.impure_calls, SIM, "import random\nrandom.Random()", "without a seed"),
    Example(purity.set_iteration, CORE, "for x in {1, 2}:\n    pass", "{1, 2}"),
    Example(purity.set_iteration, CORE, "[x for x in set(y)]", "set(y)"),
    Example(purity.set_iteration, CORE, "def f(s: set[int]):\n    return tuple(s)", "a set: s"),
    Example(purity.set_iteration, CORE, "a = {1}\nb = a | {2}\nprint(*b)", "a set: b"),
    Example(purity.set_iteration, SIM, "self.x: set[int] = set()\nx = list(self.x)", "self.x"),
    Example(purity.set_iteration, SIM, "x = [y for y in a.keys() - b]", "a.keys() - b"),
    Example(purity.set_iteration, SIM, "seen = set()\nseen.pop()", "a set: seen"),
    Example(purity.set_iteration, BROKER, "for x in {1, 2}:\n    pass", "{1, 2}"),
    Example(purity.set_iteration, CORE, "for x in sorted({1, 2}):\n    pass", None),
    Example(purity.set_iteration, CORE, "x = sorted(y + 1 for y in {1, 2})", None),
    Example(
        purity.set_iteration, CORE, "s = {1}\nif 1 in s and any(x for x in s):\n    pass", None
    ),
    Example(purity.printing, SIM, "print('x')", "print()"),
    Example(purity.printing, CLI, "print('x')", None),
    Example(ports.leaks, BROKER, "asyncio.get_running_loop()", "asyncio.get_running_loop"),
    Example(ports.leaks, BROKER, "from asyncio import to_thread", "asyncio.to_thread"),
    Example(ports.leaks, BROKER, "asyncio.create_task(work)", "asyncio.create_task"),
    Example(ports.leaks, BROKER, "await asyncio.sleep(1)", "asyncio.sleep"),
    Example(ports.leaks, BROKER, "self._loop.call_later(1, f)", ".call_later"),
    Example(ports.leaks, BROKER, "loop.run_in_executor(None, f)", ".run_in_executor"),
    Example(ports.leaks, BROKER, "def f():\n    import threading", "threading"),
    Example(ports.leaks, BROKER, "from concurrent.futures import ThreadPoolExecutor", "concurrent"),
    Example(ports.leaks, BROKER, "import time", "time"),
    Example(ports.leaks, BROKER, "import os\nos.listdir('.')", "os.listdir"),
    Example(ports.leaks, BROKER, "from tidelog.host.disk import FileDisk", "FileDisk"),
    Example(ports.leaks, BROKER, "from tidelog.host.clock import SystemClock", "SystemClock"),
    Example(ports.leaks, BROKER, "from tidelog.host.network import TcpNetwork", "TcpNetwork"),
    Example(ports.leaks, BROKER, "Client('host:9092')", "the world of this Client"),
    Example(ports.leaks, BROKER, "Client('host:9092', world=world)", None),
    Example(ports.leaks, BROKER, "import os\nos.strerror(5)\nawait asyncio.wait([x])", None),
    Example(ports.leaks, "src/tidelog/node/life.py", "asyncio.get_running_loop()", None),
    Example(ports.leaks, "src/tidelog/host/tasks.py", "asyncio.get_running_loop()", None),
    Example(ports.leaks, CLI, "asyncio.run(main())", None),
    Example(shape.too_long, CORE, "x = '" + "y" * 95 + "'", "101 columns"),
    Example(shape.too_long, CORE, "x = '" + "y" * 94 + "'", None),
    Example(shape.too_long, CORE, "def f():" + "\n    x = 1" * 50, "51 lines"),
    Example(shape.too_long, CORE, "def f():\n    '''one\n\n    two'''" + "\n    x = 1" * 49, None),
    Example(shape.too_long, CORE, "x = 1\n" * 601, "601 lines"),
    Example(shape.too_many_parameters, CORE, "def f(a, b, c, d, e, f, g): ...", "7 positional"),
    Example(shape.too_many_parameters, CORE, "def f(a, b, c, d, e, f, *, g, h): ...", None),
    Example(
        shape.too_many_parameters, CORE, "class A:\n    def f(self, a, b, c, d, e, f): ...", None
    ),
    Example(shape.vague_names, "src/tidelog/core/utils.py", "x = 1", "utils"),
    Example(shape.vague_names, CORE, "class LogManager: ...", "LogManager"),
    Example(shape.vague_names, CORE, "class Log: ...", None),
    Example(shape.banned_words, CORE, "current_term = 1", "term"),
    Example(shape.banned_words, CORE, "class FetchPurgatory: ...", "purgatory"),
    Example(shape.banned_words, CORE, "def commit_index(): ...", "commit_index"),
    Example(shape.banned_words, CORE, "def f(leader_hwm): ...", "hwm"),
    Example(shape.banned_words, CORE, "self.master = 1", "master"),
    Example(shape.banned_words, CORE, "determined = terminal = high_watermark = 1", None),
    Example(shape.missing_docstring, CORE, "x = 1", "no docstring"),
    Example(shape.missing_docstring, CORE, '"""One replica."""', None),
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.check.__name__}-{e.text[:40]!r}")
def test_a_check_finds_what_it_must_and_nothing_else(example):
    findings = example.check(Source(example.path, example.text))
    if example.finding is None:
        complain(findings)
    else:
        assert [f for f in findings if example.finding in f.text and f.path == example.path]


def test_every_check_has_an_example_that_it_must_find():
    proven = {example.check for example in EXAMPLES if example.finding is not None}
    assert proven == set(CHECKS_OF_ONE_FILE)


def test_a_finding_names_file_and_line():
    (found,) = purity.printing(Source(CORE, "x = 1\n\nprint(x)"))
    assert str(found) == "src/tidelog/core/example.py:3: print() outside the command line"


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("core/types.py", "from tidelog.core.replication import leader"),
        ("core/replication/leader.py", "from tidelog.wire.records import header"),
        ("core/replication/leader.py", "from tidelog.core.metadata.replay import replay"),
        ("core/quorum/node.py", "import tidelog.core.replication.leader"),
        ("core/metadata/replay.py", "from ..quorum import node"),
        ("core/metadata/replay.py", "def f():\n    from tidelog.host import ports"),
        ("wire/records/header.py", "from tidelog.core.types import PartitionId"),
        ("host/disk.py", "from tidelog.core.replication.leader import LeaderReplica"),
        ("storage/log.py", "from tidelog.sim.disk import SimDisk"),
        ("storage/log.py", "from tidelog.config.node_config import NodeConfig"),
        ("config/layers.py", "from tidelog.host import ports"),
        ("storage/log.py", "from tidelog.wire.requests import Produce"),
        ("controller/queue.py", "from tidelog.broker import fetcher"),
        ("sim/world.py", "from tidelog.cli.output import duration"),
        ("node/build.py", "from tidelog.testing import cluster"),
        ("surprise.py", "x = 1"),
        ("__init__.py", "from tidelog.core.types import PartitionId"),
    ],
)
def test_an_import_against_the_direction_is_found(importer, line):
    sources = [
        Source(f"src/tidelog/{importer}", line),
        Source("src/tidelog/core/replication/leader.py", ""),
    ]
    (found,) = imports.against_direction(sources[:1] if "leader" in importer else sources)
    assert found.path == sources[0].path


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("core/events.py", "from tidelog.core.types import PartitionId"),
        ("core/replication/isr.py", "from tidelog.core.replication import inputs"),
        ("core/replication/state.py", "from tidelog.core.metadata.records import RECOVERED"),
        ("core/quorum/log_view.py", "from tidelog.core.replication.epochs import EpochHistory"),
        ("storage/log.py", "from tidelog.core.replication.producers import ProducerStates"),
        ("sim/node.py", "from tidelog.storage.log import Log"),
        ("config/node_config.py", "from tidelog.core.quorum.state import QuorumSettings"),
        ("cli/demo.py", "from tidelog.sim.nodes.run import run_node_seed"),
        ("__main__.py", "from tidelog.cli.main import main"),
        ("core/types.py", "from typing import NamedTuple"),
    ],
)
def test_an_import_along_the_direction_is_fine(importer, line):
    complain(imports.against_direction([Source(f"src/tidelog/{importer}", line)]))


def test_a_module_that_nothing_names_is_dead():
    used = Source("src/tidelog/core/used.py", "x = 1")
    tested = Source("src/tidelog/core/tested.py", "from tidelog.core import used")
    by_name = Source("src/tidelog/cli/demo.py", "x = 1")
    entry = Source("src/tidelog/cli/main.py", "COMMANDS = ['tidelog.cli.demo']")
    forgotten = Source("src/tidelog/core/forgotten.py", "'tidelog.core.forgotten'")
    test = Source("tests/unit/test_x.py", "from tidelog.core.tested import x")
    sources = [used, tested, by_name, entry, forgotten]
    (dead,) = imports.dead_modules(sources, [test], frozenset({"tidelog.cli.main"}))
    assert dead.path == forgotten.path


def test_untidy_files_are_found(tmp_path: Path):
    unfinished, machine, registry = "TO" + "DO: later", "see /ho" + "me/me/x", "--index" + "-url x"
    (tmp_path / "notes.md").write_text(f"fine\n{unfinished}\n{machine}\n{registry}\n")
    hosts = "https://regis" + "try.x/simple", "from regis" + "try.example.com"
    fine = "from tidelog.registry.app import make_app, registry.get"
    (tmp_path / "hosts.md").write_text("\n".join((fine, *hosts)))
    (tmp_path / "big.bin").write_bytes(b"\0" * (hygiene.FILE_BYTES_MAX + 1))
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "theirs.py").write_text(unfinished)
    found = [(f.path, f.line) for f in hygiene.untidy_files(tmp_path)]
    assert found[:3] == [("big.bin", 1), ("hosts.md", 2), ("hosts.md", 3)]
    assert found[3:] == [("notes.md", 2), ("notes.md", 3), ("notes.md", 4)]


def test_a_document_that_names_what_is_not_there_is_found(tmp_path: Path):
    source = Source(CORE, "LIMIT = 1\nclass Log:\n    size: int = 0\n    def end(self): ...")
    (tmp_path / "good.md").write_text(
        "[itself](good.md#part) [out](https://example.org) `core.example` `core.example.LIMIT` "
        "`core.example.Log.end` `core.example.Log.size` `some.other.name`"
    )
    bad = ["[gone](gone.md)", "`docs/gone.md`", "`core.gone`", "`core.example.Log.gone`"]
    (tmp_path / "bad.md").write_text("\n".join(bad))
    found = [(f.path, f.line) for f in documents.bad_references(tmp_path, [source])]
    assert found == [("bad.md", 1), ("bad.md", 2), ("bad.md", 3), ("bad.md", 4)]


def test_assertions_are_counted_per_function_worth_asserting_in():
    long = "def f(x):\n    assert x\n" + "    x += 1\n" * 5
    short = "def g(x):\n    return x\n"
    density = shape.assert_density([Source(CORE, long + short)], "core")
    assert (density.asserts, density.functions, density.ratio) == (1, 1, 1.0)


def test_an_untrue_row_of_the_map_is_found():
    assert documents.untrue_map(
        ARCHITECTURE.replace("| words, `core.replication.epochs` |", "| words |")
    )
    assert documents.untrue_map(ARCHITECTURE.replace("| `console` |", "| `consoles` |"))
    rows = ARCHITECTURE.splitlines()
    first = next(at for at, row in enumerate(rows) if row.startswith("| `core.groups`"))
    rows[first], rows[first + 1] = rows[first + 1], rows[first]
    assert documents.untrue_map("\n".join(rows))


def test_a_pool_of_threads_is_found_however_it_is_made():
    text = "host.make_workers('one', 1)\nself._make_workers('two', 8)\nmake_workers('three', 2)"
    assert documents.pools_in([Source(BROKER, text)]) == {"one", "two", "three"}
