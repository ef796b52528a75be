"""Formats a node's directories, once: `meta.properties` in each, with one cluster id in all."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config.node_config import NodeConfig
from tidelog.core.metadata.bootstrap import METADATA_VERSION, METADATA_VERSION_FEATURE
from tidelog.core.metadata.records import FeatureLevel, UserScramCredential
from tidelog.core.security.scram_text import parse_scram_user
from tidelog.host.ports import Entropy, Filesystem
from tidelog.node.bootstrap_file import write_bootstrap
from tidelog.storage import meta_properties
from tidelog.storage.errors import StorageError
from tidelog.storage.meta_properties import MetaProperties
from tidelog.storage.uuids import uuid_text

CLUSTER_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
BOOTSTRAP_FEATURES = (FeatureLevel(METADATA_VERSION_FEATURE, METADATA_VERSION),)
"""Kafka does not read the file without it."""
HARMLESS = ("lost+found", ".lock")
"""What a directory may hold before it is ours: a mount point's, and what a lock leaves behind."""
SHOWN_NAMES = 3


class CannotFormat(Exception):  # noqa: N818 - it says what it means
    """Nothing was written. The message says which directory, and why."""


class NeedsClusterId(CannotFormat):
    """Other nodes must have the same id, so one cannot be made up here."""


class Formatted(NamedTuple):
    cluster_id: str
    new: tuple[str, ...]
    """Directories that were made ours now."""
    known: tuple[str, ...]
    """Directories that were ours already."""


def directories_of(config: NodeConfig) -> list[str]:
    """Every directory that must say whose it is."""
    return list(dict.fromkeys([*config.log_dirs, config.metadata_log_dir]))


def fresh_cluster_id(entropy: Entropy) -> str:
    return uuid_text(entropy.uuid())


def format_node(
    config: NodeConfig,
    cluster_id: str | None,
    filesystem: Filesystem,
    entropy: Entropy,
    *,
    users: Sequence[str] = (),
) -> Formatted:
    """All directories or none: each is looked at before the first is written. `users` are written
    as `SCRAM-SHA-512=[name=alice,password=secret]`, and exist from the first start on."""
    if cluster_id is not None and not CLUSTER_ID.fullmatch(cluster_id):
        raise CannotFormat(
            f"{cluster_id!r} is no cluster id: 1 to 128 letters, digits, dots, dashes, underscores"
        )
    paths = directories_of(config)
    owners = {path: _owner(filesystem, path) for path in paths}
    known = {path: identity for path, identity in owners.items() if identity is not None}
    chosen = cluster_id or _cluster_of(config, known, entropy)
    for path, identity in known.items():
        _require_ours(path, identity, chosen, config.node_id)
    new = [path for path in paths if path not in known]
    added = _added_users(users, entropy)
    if added and config.metadata_log_dir in known:
        raise CannotFormat(
            f"{config.metadata_log_dir} is formatted already: add users to the running cluster"
        )
    for path in new:
        try:
            filesystem.make_directory(path)
            if added and path == config.metadata_log_dir:
                write_bootstrap(filesystem.open(path), BOOTSTRAP_FEATURES, added)
            properties = MetaProperties(chosen, config.node_id, entropy.uuid())
            meta_properties.format_directory(filesystem.open(path), properties)
        except OSError as error:
            raise CannotFormat(f"{path} cannot be written: {_reason(error)}") from None
    return Formatted(chosen, tuple(new), tuple(known))


def _added_users(users: Sequence[str], entropy: Entropy) -> tuple[UserScramCredential, ...]:
    try:
        parsed = [parse_scram_user(text, entropy.uuid() + entropy.uuid()) for text in users]
    except ValueError as reason:
        raise CannotFormat(f"--add-scram: {reason}") from None
    return tuple(UserScramCredential(*user) for user in parsed)


def _owner(filesystem: Filesystem, path: str) -> MetaProperties | None:
    """None if the directory may become ours."""
    if not filesystem.exists(path):
        return None
    if not filesystem.is_directory(path):
        raise CannotFormat(f"{path} cannot be read: not a directory")
    try:
        disk = filesystem.open(path)
        names = [name for name in disk.list("") if name not in HARMLESS]
        identity = meta_properties.read_meta_properties(disk)
    except OSError as error:
        raise CannotFormat(f"{path} cannot be read: {_reason(error)}") from None
    except StorageError as error:
        raise CannotFormat(f"{path}: {error}") from None
    if identity is None and names:
        shown = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        raise CannotFormat(f"{path} is not empty and not a log directory: it holds {shown}")
    return identity


def _cluster_of(config: NodeConfig, known: dict[str, MetaProperties], entropy: Entropy) -> str:
    """What is there already decides; a node that is a cluster alone may have any id."""
    if known:
        return next(iter(known.values())).cluster_id
    if [voter.node_id for voter in config.voters] == [config.node_id]:
        return fresh_cluster_id(entropy)
    raise NeedsClusterId("every node of a cluster has the same cluster id, and none was given")


def _require_ours(path: str, identity: MetaProperties, cluster_id: str, node_id: int) -> None:
    try:
        meta_properties.check_owner(identity, cluster_id=cluster_id, node_id=node_id)
    except StorageError as error:
        raise CannotFormat(f"{path}: {error}") from None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
