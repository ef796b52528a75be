"""Messages that are late or lost, connections that are cut."""

from tidelog.sim.scenario.quorum.commands.registry import command
from tidelog.sim.scenario.quorum.messages import KINDS, Envelope
from tidelog.sim.scenario.quorum.stage import QuorumStage
from tidelog.sim.scenario.quorum.wire import ANY, Route
from tidelog.sim.scenario.script import ArgumentError, Arguments

_ROUTE = "FROM->TO [KIND]; * is everybody"


@command("hold", _ROUTE)
def hold(stage: QuorumStage, arguments: Arguments) -> None:
    """From now on such messages stay on the wire."""
    stage.gates.append(_route(stage, arguments))


@command("deliver", f"{_ROUTE} [copy]")
def deliver(stage: QuorumStage, arguments: Arguments) -> None:
    """The oldest such message that is held arrives; with copy it stays on the wire, too."""
    copy = arguments.flag("copy")
    stage.deliver_held(_held(stage, arguments), keep=copy)


@command("drop", f"{_ROUTE} | all")
def drop(stage: QuorumStage, arguments: Arguments) -> None:
    """The oldest such message that is held is lost; or all are, and nothing more is held."""
    if arguments.flag("all"):
        stage.gates.clear()
        stage.held.clear()
    else:
        stage.held.remove(_held(stage, arguments))


@command("release")
def release(stage: QuorumStage, arguments: Arguments) -> None:
    """Nothing is held any longer, and what was arrives."""
    stage.gates.clear()
    held, stage.held = stage.held, []
    for envelope in held:
        stage.release(envelope)


@command("isolate", "NODE …")
def isolate(stage: QuorumStage, arguments: Arguments) -> None:
    """These nodes reach each other and clients, and nobody else."""
    inside = [stage.machine(name).address for name in arguments.words()]
    for one in inside:
        for other in stage.machines:
            if other not in inside:
                stage.wires.cut(one, other)


@command("cut", "NODE NODE")
def cut(stage: QuorumStage, arguments: Arguments) -> None:
    """These two do not reach each other."""
    one, other = (stage.machine(arguments.word("a node")).address for _ in range(2))
    stage.wires.cut(one, other)


@command("heal")
def heal(stage: QuorumStage, arguments: Arguments) -> None:
    """Everybody reaches everybody."""
    stage.wires.heal()


def _route(stage: QuorumStage, arguments: Arguments) -> Route:
    source, arrow, target = arguments.word("a route").partition("->")
    if not arrow:
        raise ArgumentError("a route is like 1->2 or *->2")
    kind = arguments.optional_word()
    if kind is not None and kind not in KINDS:
        raise ArgumentError(f"a message is one of {', '.join(KINDS)}, not {kind!r}")
    return Route(_end(stage, source), _end(stage, target), kind)


def _end(stage: QuorumStage, name: str) -> int:
    return ANY if name == "*" else stage.machine(name).address


def _held(stage: QuorumStage, arguments: Arguments) -> Envelope:
    route = _route(stage, arguments)
    found = next((each for each in stage.held if route.covers(each)), None)
    if found is None:
        raise ArgumentError("no such message is held")
    return found
