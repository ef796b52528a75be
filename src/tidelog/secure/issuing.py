"""Makes the authority and the keys of a secured cluster, in its directory."""

import datetime
from collections.abc import Iterable, Sequence

from tidelog.secure.authority import Authority
from tidelog.secure.home import SecureHome
from tidelog.secure.node_settings import NodeFiles
from tidelog.secure.secret_files import write_secret


def make_authority(home: SecureHome, cluster: str) -> Authority:
    """A second call changes nothing: certificates that were issued stay valid."""
    if home.exists:
        return Authority.load(home.directory)
    authority = Authority.make(cluster, _now())
    authority.save(home.directory)
    return authority


def issue_to_node(home: SecureHome, node_id: int, hosts: Sequence[str]) -> NodeFiles:
    """A new key for a node. A node that runs takes it without a restart."""
    files = home.node_files(node_id)
    files.bundle.parent.mkdir(parents=True, exist_ok=True)
    issued = Authority.load(home.directory).issue_to_node(f"node-{node_id}", hosts, _now())
    write_secret(files.bundle, issued.bundle)
    return files


def issue_to_new_nodes(home: SecureHome, node_ids: Iterable[int], hosts: Sequence[str]) -> None:
    """A cluster that is started again keeps its keys."""
    known = home.node_ids()
    for node_id in node_ids:
        if node_id not in known:
            issue_to_node(home, node_id, hosts)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
