"""S13–S21: what the shell does for the quorum, the controller and a broker's registration."""

from typing import Any

from tidelog.broker.control.controller_link import ControllerLink
from tidelog.broker.control.metadata_changes import MetadataChanges
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.effects import Answer, Effect
from tidelog.core.metadata.lifecycle import SHUTTING_DOWN, BrokerLifecycle
from tidelog.core.requests import ControllerRequest, HeartbeatRequest, RegisterBrokerRequest
from tidelog.host.ports import Buffer, Disk
from tidelog.quorum import member
from tidelog.quorum.member import QuorumMember
from tidelog.sim.mutants.patch import Mutant, Patch
from tidelog.storage import atomic_file
from tidelog.storage.metadata_snapshots import SnapshotStore
from tidelog.storage.quorum_state_file import State, render_quorum_state
from tidelog.wire.protocol import Message

REGISTRATION_PATIENCE_MS = 60_000


def _replace_unsynced(disk: Disk, path: str, content: Buffer) -> None:
    """In the page cache, where the process itself sees it."""
    temporary = path + atomic_file.TEMPORARY_SUFFIX
    file = disk.open(temporary, create=True)
    file.truncate(0)
    file.write(0, content)
    file.close()
    disk.rename(temporary, path)


def _write_vote_unsynced(disk: Disk, path: str, state: State) -> None:
    _replace_unsynced(disk, path, render_quorum_state(state))


def _sync_reported_at_once(quorum: QuorumMember) -> None:
    """Entries count as durable when they are written."""
    quorum._sync_scheduled = False
    pending = quorum._log.start_sync()
    if pending is not None:
        pending.release()
        quorum._log.finish_sync(pending, None)
    quorum._step(lambda: quorum._quorum.on_durable(quorum._host.now_ms()))


def _write_snapshot_unsynced(store: SnapshotStore, snapshot: Any, content: bytes) -> None:
    store._decode(snapshot, content)
    _replace_unsynced(store._disk, store._path(snapshot), content)


_handle = Controller.handle


def _answer_before_commit(
    controller: Controller,
    token: object,
    request: ControllerRequest,
    now_ms: int,
    *,
    part_of: object = None,
) -> list[Effect]:
    effects = _handle(controller, token, request, now_ms, part_of=part_of)
    waiting = controller._waiting
    if waiting and waiting[-1].token is token:
        effects.append(Answer(token, waiting.pop().response))
    return effects


_next_request = BrokerLifecycle.next_request


def _give_up_after_a_minute(
    lifecycle: BrokerLifecycle, now_ms: int, metadata_offset: int, ready: bool
) -> RegisterBrokerRequest | HeartbeatRequest | None:
    if lifecycle.unregistered_ms(now_ms) > REGISTRATION_PATIENCE_MS:
        lifecycle.state = SHUTTING_DOWN
    return _next_request(lifecycle, now_ms, metadata_offset, ready)


_forward = ControllerLink.forward


async def _forward_twice(link: ControllerLink, *asked: Any) -> Message:
    await _forward(link, *asked)
    return await _forward(link, *asked)


_touch = MetadataChanges.touch


def _forget_while_others_follow(changes: MetadataChanges, partitions: Any) -> None:
    if not changes._scheduled:
        _touch(changes, partitions)


def _node(name: str, title: str, patches: tuple[Patch, ...], *focus: str) -> Mutant:
    return Mutant(name, title, patches, focus=focus)


MUTANTS: tuple[Mutant, ...] = (
    _node("S13", "a vote is stored and not synced",
          (Patch(member, "write_quorum_state", _write_vote_unsynced),),
          "power_loss", "isolate"),
    _node("S14", "entries of the metadata log count as durable before they are synced",
          (Patch(QuorumMember, "_start_sync", _sync_reported_at_once),),
          "power_loss"),
    _node("S15", "a snapshot of the metadata takes the place of the log before it is synced",
          (Patch(SnapshotStore, "write", _write_snapshot_unsynced),),
          "power_loss", "isolate"),
    _node("S16", "the controller answers before its records are committed",
          (Patch(Controller, "handle", _answer_before_commit),),
          "isolate", "split", "writers"),
    _node("S18", "a broker that could not register within a minute gives up",
          (Patch(BrokerLifecycle, "next_request", _give_up_after_a_minute),),
          "lonely_node", "writers"),
    _node("S19", "a request of a client is forwarded to the controller twice",
          (Patch(ControllerLink, "forward", _forward_twice),),
          "elect"),
    _node("S21", "partitions that change while others follow metadata are forgotten",
          (Patch(MetadataChanges, "touch", _forget_while_others_follow),),
          "kill", "elect"),
)  # fmt: skip
