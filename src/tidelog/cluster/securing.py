"""Keys and the first user of a local cluster that is secured, before its first start."""

from pathlib import Path

from tidelog.cluster.layout import data_directory, secure_home
from tidelog.cluster.state import ClusterState
from tidelog.core.metadata.records import UserScramCredential
from tidelog.core.security.scram_text import parse_scram_user
from tidelog.host.disk import FileDisk
from tidelog.host.entropy import SystemEntropy
from tidelog.node.bootstrap_file import write_bootstrap
from tidelog.node.formatting import BOOTSTRAP_FEATURES
from tidelog.secure.client_files import Login
from tidelog.secure.issuing import issue_to_new_nodes, make_authority
from tidelog.secure.machines import scram_line
from tidelog.secure.node_settings import ADMIN_USER


def secure(directory: Path, state: ClusterState) -> None:
    """A cluster that is started again keeps its keys and users."""
    home = secure_home(directory)
    make_authority(home, state.name)
    issue_to_new_nodes(home, state.nodes, [state.host, "localhost"])
    if home.login_file(ADMIN_USER).exists():
        home.move_login(ADMIN_USER, state.bootstrap_servers)
    else:
        _add_first_user(directory, state, home.make_login(ADMIN_USER, state.bootstrap_servers))


def _add_first_user(directory: Path, state: ClusterState, login: Login) -> None:
    """The first controller writes it into its log."""
    user = UserScramCredential(*parse_scram_user(scram_line(login), SystemEntropy().uuid()))
    for node in state.controllers:
        disk = FileDisk(str(data_directory(directory, node.id)))
        write_bootstrap(disk, BOOTSTRAP_FEATURES, (user,))
