"""Messages that are late or lost, connections that are cut, metadata that lags."""

from tidelog.sim.scenario import gate
from tidelog.sim.scenario.commands.clients import CLIENT
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.exchange import Exchange
from tidelog.sim.scenario.produce import Produce
from tidelog.sim.scenario.script import ArgumentError, Arguments, list_of
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.scenario.wires import Question

_KINDS = "|".join(gate.KINDS)


@command("hold", f"{_KINDS} BROKER (produce has no broker)")
def hold(stage: Stage, arguments: Arguments) -> None:
    """The next message of this kind from or to the broker stays on the wire."""
    kind = arguments.choice("a message", gate.KINDS)
    stage.gate.hold_next(kind, _end(stage, kind, arguments))


@command("deliver", f"{_KINDS} BROKER [zero-copy]")
def deliver(stage: Stage, arguments: Arguments) -> None:
    """A message that was held arrives; `zero-copy`: its bytes are read only now."""
    kind, message = _take(stage, arguments)
    zero_copy = arguments.flag("zero-copy")
    if isinstance(message, Produce):
        stage.producing.deliver(message)
    elif isinstance(message, Exchange):
        message.told = [f"{kind} of {message.follower.name} arrives"]
        if kind == gate.FETCH:
            message.deliver_request()
        else:
            message.deliver_answer(zero_copy=zero_copy)
        message.tell()
    elif isinstance(message, Question):
        if kind == gate.RESULT:
            stage.wires.deliver_answer(message)
        else:
            stage.wires.deliver_request(message)


@command("drop", f"{_KINDS} BROKER")
def drop(stage: Stage, arguments: Arguments) -> None:
    """A message that was held is lost. Its sender notices that no answer comes."""
    kind, message = _take(stage, arguments)
    if isinstance(message, Exchange):
        message.told = []
        message.lose(f"{kind} of {message.follower.name} is lost")
        message.tell()
    elif isinstance(message, Question):
        stage.wires.lose(message)


@command("isolate", "BROKER [from=(controller,BROKER,…)]")
def isolate(stage: Stage, arguments: Arguments) -> None:
    """Cut the broker off from the controller and the other brokers; clients still reach it."""
    broker = stage.broker(arguments.word("a broker"))
    value = arguments.option("from")
    controller = stage.control.node_id
    others = [controller, *(other for other in stage.brokers if other != broker.id)]
    if value is not None:
        others = [
            controller if name == "controller" else stage.broker(name).id
            for name in list_of("from", value)
        ]
    for other in others:
        stage.wires.cut(broker.id, other)


@command("heal", "BROKER")
def heal(stage: Stage, arguments: Arguments) -> None:
    """The broker is connected again: it speaks to the controller and hears what it missed."""
    broker = stage.broker(arguments.word("a broker"))
    stage.wires.heal(broker.id)
    if not broker.metadata_held:
        with stage.telling_roles(broker):
            stage.gate.release_metadata(broker.id)


@command("metadata", "BROKER hold|apply")
def metadata(stage: Stage, arguments: Arguments) -> None:
    """From now on the broker lags behind in metadata; or it applies what it has missed."""
    broker = stage.broker(arguments.word("a broker"))
    broker.metadata_held = arguments.choice("what to do", ("hold", "apply")) == "hold"
    if not broker.metadata_held:
        with stage.telling_roles(broker):
            stage.gate.release_metadata(broker.id)


@command("fill-metadata", "to=OFFSET")
def fill_metadata(stage: Stage, arguments: Arguments) -> None:
    """Other things happen in the cluster: the metadata log grows, and with it broker epochs."""
    offset = arguments.number("to", 0)
    if offset < stage.control.next_offset:
        raise ArgumentError(f"the metadata log ends at {stage.control.next_offset} already")
    stage.control.fill(offset)


def _end(stage: Stage, kind: str, arguments: Arguments) -> int:
    return CLIENT if kind == gate.PRODUCE else stage.broker(arguments.word("a broker")).id


def _take(stage: Stage, arguments: Arguments) -> tuple[str, object]:
    kind = arguments.choice("a message", gate.KINDS)
    message = stage.gate.take(kind, _end(stage, kind, arguments))
    if message is None:
        raise ArgumentError(f"no {kind} is on the wire")
    return kind, message
