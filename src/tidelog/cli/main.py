"""The `tidelog` command: the list of its commands, and the border where errors are told.

Only click is imported here; every command brings its own imports when it is called.
"""

import os
import sys
from typing import Any

import click

from tidelog import __version__
from tidelog.cli.failure import ERROR, INTERRUPTED, OK, render
from tidelog.cli.lazy import Lazy, LazyGroup, shared_options
from tidelog.cli.session import Session
from tidelog.cli.usage import as_command_error

COMMANDS = {
    "demo": Lazy("tidelog.cli.demo", "Run the main job end to end, with a killed leader."),
    "lab": Lazy("tidelog.cli.lab", "Learn replication step by step, on the simulator.", "group"),
    "up": Lazy("tidelog.cli.local.up", "Start a cluster on this machine."),
    "down": Lazy("tidelog.cli.local.down", "Stop the local cluster."),
    "ps": Lazy("tidelog.cli.local.ps", "List the nodes of local clusters."),
    "console": Lazy("tidelog.cli.console", "Serve the web console."),
    "logs": Lazy("tidelog.cli.local.logs", "Show the logs of the local nodes."),
    "node": Lazy("tidelog.cli.node", "Run one node from its server.properties.", "group"),
    "format": Lazy("tidelog.cli.format", "Format the log directories of a node."),
    "secure": Lazy("tidelog.cli.secure", "Set up TLS, users and ACLs.", "group"),
    "topic": Lazy("tidelog.cli.topic", "Create, describe, change and delete topics.", "group"),
    "produce": Lazy("tidelog.cli.produce", "Write records."),
    "consume": Lazy("tidelog.cli.consume", "Read records."),
    "group": Lazy("tidelog.cli.group", "Inspect, move and delete consumer groups.", "group"),
    "txn": Lazy("tidelog.cli.txn", "List, describe and abort transactions.", "group"),
    "user": Lazy("tidelog.cli.user", "List, add and remove users (SCRAM).", "group"),
    "acl": Lazy("tidelog.cli.acl", "List, add and remove access rules (ACLs).", "group"),
    "quota": Lazy("tidelog.cli.quota", "List and set client quotas.", "group"),
    "cluster": Lazy("tidelog.cli.cluster", "Show brokers, health and APIs.", "group"),
    "leaders": Lazy("tidelog.cli.leaders", "Elect and balance partition leaders.", "group"),
    "explain": Lazy("tidelog.cli.explain", "Explain the state of a partition or a group."),
    "chaos": Lazy("tidelog.cli.chaos", "Break the local cluster on purpose.", "group"),
    "audit": Lazy("tidelog.cli.audit", "Check for lost, duplicated or changed records.", "group"),
    "bench": Lazy("tidelog.cli.bench", "Measure a real cluster on this machine.", "group"),
    "sim": Lazy("tidelog.cli.sim", "Run, replay and shrink simulated clusters.", "group"),
    "pipeline": Lazy(
        "tidelog.cli.pipeline", "Run Spark jobs on topics: tables, mirrors, health.", "group"
    ),
    "registry": Lazy("tidelog.cli.registry", "Run a schema registry on a topic.", "group"),
    "config": Lazy("tidelog.cli.config", "Explain, list and check settings of a node.", "group"),
    "version": Lazy("tidelog.cli.version", "Show the version, Python and compiled kernels."),
}


class Root(LazyGroup):
    """Turns whatever a command ends with into a message and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        given = args[0] if args else extra.pop("args", None)
        arguments = list(sys.argv[1:] if given is None else given)
        standalone = extra.pop("standalone_mode", True)
        session = Session.from_arguments(arguments)
        code = self._guarded(arguments, session, extra)
        if standalone:
            sys.exit(code)
        return code

    def _guarded(self, arguments: list[str], session: Session, extra: dict[str, Any]) -> int:
        extra.setdefault("prog_name", "tidelog")
        try:
            returned = super().main(arguments, standalone_mode=False, obj=session, **extra)
            return returned if isinstance(returned, int) else OK
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            return INTERRUPTED
        except BrokenPipeError:
            # The reader (`head`, `less`) has gone; Python must not complain again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ERROR
        except Exception as reason:
            if session.debug:
                raise
            error = as_command_error(reason)
            command = _command_of(reason, arguments)
            click.echo(render(command, error, as_json=session.as_json), err=True)
            return error.code


def _command_of(reason: Exception, arguments: list[str]) -> str:
    """`sim shrink 12`: the command and its object, without the options."""
    context = getattr(reason, "ctx", None)
    if isinstance(context, click.Context):
        return context.command_path.removeprefix("tidelog").strip()
    words = []
    for argument in arguments:
        if argument.startswith("-"):
            break
        words.append(argument)
    return " ".join(words)


@click.group(
    name="tidelog",
    cls=Root,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Completion: eval "$(_TIDELOG_COMPLETE=bash_source tidelog)" (also zsh, fish).',
)
@click.version_option(__version__, "-V", "--version", message="tidelog %(version)s")
@shared_options
def cli() -> None:
    """A replicated commit log that Kafka clients use as if it were Apache Kafka.

    \b
    Examples:
      tidelog demo
      tidelog up --brokers 3
      tidelog topic create orders -p 3
      tidelog sim run --seeds 200
      tidelog sim run --seed 4711
      tidelog lab run reconcile --step
      tidelog config check server.properties
    """


def main() -> None:
    if not __debug__:
        sys.exit("tidelog does not run under python -O: its assertions are part of its safety")
    cli.main()
