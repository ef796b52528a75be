"""The table of APIs, and the schemas as the script writes them."""

import subprocess
import sys
from pathlib import Path

from support.protocol_messages import DATA, REQUESTS, RESPONSES, versions_of
from tidelog.wire.protocol import API_BY_KEY, APIS, Listener, Release, supported_versions
from tidelog.wire.protocol.schemas import REQUESTS as REQUEST_MODULES
from tidelog.wire.protocol.schemas import RESPONSES as RESPONSE_MODULES

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src/tidelog/wire/protocol/schemas"
GENERATOR = ROOT / "scripts/make_schemas.py"


def test_the_script_writes_exactly_what_is_committed(tmp_path):
    subprocess.run([sys.executable, str(GENERATOR), str(tmp_path)], check=True, timeout=120)
    written = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.py")}
    committed = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.py")}
    assert sorted(written) == sorted(committed)
    assert [name for name in written if written[name] != committed[name]] == []


def test_the_folder_is_the_list_of_what_is_covered():
    modules = [*REQUEST_MODULES.values(), *RESPONSE_MODULES.values()]
    expected = {module.rpartition(".")[2] for module in modules}
    expected |= {message.__module__.rpartition(".")[2] for message in DATA.values()}
    assert {path.stem for path in FOLDER.glob("*.py")} == expected | {"__init__"}
    assert set(REQUEST_MODULES) == set(RESPONSE_MODULES) == set(API_BY_KEY)


def test_the_table_agrees_with_the_schemas():
    for api, request, response in zip(APIS, REQUESTS, RESPONSES, strict=True):
        assert request.__name__ == f"{api.name}Request"
        assert request.__api_key__ == response.__api_key__ == api.key
        assert versions_of(request) == versions_of(response)
        served = versions_of(request)
        assert api.full.last <= served[-1], api
        assert api.full.first >= served[0] or api.name == "Produce", api
        for version in served:
            flexible = version in request.__flexible__
            assert flexible == (version in response.__flexible__)
            assert flexible == api.is_flexible(version), (api, version)
        if api.first.last >= 0:
            assert api.full.first == api.first.first, api
            assert api.full.last >= api.first.last, api


def test_a_first_release_offers_clients_what_six_of_them_worked_with():
    offered = {row.key: row[1:] for row in supported_versions()}
    assert len(offered) == 48
    assert (offered[0], offered[1], offered[3]) == ((0, 11), (4, 17), (0, 12))
    # Consumer groups of the new kind, telemetry, transactions between brokers: not yet.
    assert offered.keys().isdisjoint({27, 52, 56, 62, 64, 68, 69, 71, 72, 74, 75, 80})


def test_everything_is_offered_in_the_end():
    offered = {row.key: row[1:] for row in supported_versions(release=Release.FULL)}
    assert (offered[0], offered[1], offered[68]) == ((0, 13), (4, 18), (0, 1))
    assert {64, 80, 81} <= offered.keys()  # admin clients ask brokers, brokers forward
    assert offered[27] == (1, 2)  # admin clients end transactions that hang
    assert offered.keys().isdisjoint({52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 71, 72, 73, 82})


def test_the_cluster_listener_also_offers_what_brokers_and_controllers_use():
    offered = {row.key: row[1:] for row in supported_versions(Listener.CLUSTER)}
    assert (offered[52], offered[56], offered[62]) == ((0, 2), (2, 3), (0, 4))
    assert offered[1] == (4, 17)


def test_nothing_is_offered_that_is_not_implemented():
    assert [row.key for row in supported_versions(implemented={18, 3, 99})] == [3, 18]
