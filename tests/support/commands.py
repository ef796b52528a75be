"""The command line in this process: as quick as a call, with what a shell would see."""

import json
from typing import Any, NamedTuple

from click.testing import CliRunner

from tidelog.cli.main import cli
from tidelog.testing import Cluster


class Ran(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """What `-o json` printed."""
        assert self.code == 0, self.stderr
        return json.loads(self.stdout)

    @property
    def rows(self) -> list[list[str]]:
        """The words of a table's lines, below its titles."""
        assert self.code == 0, self.stderr
        return [line.split() for line in self.stdout.splitlines()[1:]]


def tidelog(cluster: Cluster, *arguments: str) -> Ran:
    result = CliRunner().invoke(cli, [*arguments, "-b", cluster.bootstrap_servers])
    assert "Traceback" not in result.stderr, result.stderr
    return Ran(result.exit_code, result.stdout, result.stderr)
