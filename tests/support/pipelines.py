"""Pipelines as commands in this process, on the session that tests share."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from support.commands import Ran
from tidelog.cli.main import cli

QUICK = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}
"""For a handful of rows, compiling a plan takes longer than running it."""


@contextmanager
def quick(spark: Any) -> Iterator[Any]:
    """The session that all tests share, set for small data while the block lasts."""
    before = {key: spark.conf.get(key, None) for key in QUICK}
    for key, value in QUICK.items():
        spark.conf.set(key, value)
    try:
        yield spark
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


class Home:
    """A directory with checkpoints, and what commands say that keep theirs in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, *arguments: str) -> Ran:
        given = ["pipeline", *arguments, "--state-dir", str(self.directory)]
        result = CliRunner().invoke(cli, given)
        assert "Traceback" not in result.stderr, result.stderr
        return Ran(result.exit_code, result.stdout, result.stderr)

    def done(self, *arguments: str) -> Ran:
        ran = self.run(*arguments)
        assert ran.code == 0, ran.stderr
        return ran

    def batches(self, *arguments: str) -> list[dict[str, Any]]:
        """What each batch of a run was, from its JSON lines."""
        ran = self.done(*arguments, "-o", "json")
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def status(self, name: str) -> Any:
        (found,) = self.done("status", name, "-o", "json").document
        return found
