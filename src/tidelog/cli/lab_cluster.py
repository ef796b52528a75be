"""`tidelog lab run --on cluster`: a story on the cluster that `tidelog up --lab` started."""

from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.failure import UNREACHABLE, CommandError
from tidelog.cli.lab_port import Ask, Tell
from tidelog.cli.local.home import load_nodes
from tidelog.cluster.nodes import LocalNodes
from tidelog.lab import Chapter, find
from tidelog.lab.live_play import LivePlay
from tidelog.lab.play import PlayError
from tidelog.lab.telling import Revealed, tell_with


def run_on_cluster(
    story: str, data_dir: Path, name: str | None, *, tell: Tell, ask: Ask | None = None
) -> list[str]:
    """What did not come out as on the simulator."""
    nodes = lab_nodes(data_dir, name)
    try:
        play = LivePlay(nodes, find(story))
    except PlayError as reason:
        raise _as_command_error(reason, f"tidelog lab run {story}") from None
    try:

        def reveal(_: Chapter) -> Sequence[Revealed]:
            play.forward()
            return play.revealed

        return tell_with(play.story, reveal, tell=tell, ask=ask)
    except PlayError as reason:
        raise _as_command_error(reason, reason.advice) from None
    finally:
        play.close()


def lab_nodes(data_dir: Path, name: str | None) -> LocalNodes:
    nodes = load_nodes(data_dir, name)
    if not nodes.state.is_running or not nodes.state.lab:
        state = nodes.state
        raise CommandError(
            f"{state.name} is no lab" if state.is_running else f"{state.name} does not run",
            why="a story on a cluster needs a gate on the fetches of its brokers",
            advice="tidelog up --lab --detach --name lab",
            code=UNREACHABLE,
        )
    return nodes


def _as_command_error(reason: PlayError, advice: str) -> CommandError:
    return CommandError("the story cannot be played there", why=str(reason), advice=advice)
