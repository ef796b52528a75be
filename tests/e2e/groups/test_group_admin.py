"""Groups are listed, described, sought and deleted by the administrators of different clients."""

import contextlib

import pytest

from e2e.clients import java_driver
from e2e.clients.driver import Refused
from e2e.groups.group_admin import ConfluentGroups, GroupAdmin, JavaGroups, KafkaPythonGroups
from e2e.groups.member import LIBRARIES, crew_of, until
from support import live
from tidelog.testing import Cluster

RECORDS = 20
SOUGHT = 7
MEMBERS = {"classic": LIBRARIES["confluent-eager"], "new": LIBRARIES["confluent-new"]}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3) as cluster:
        yield cluster


def confluent(cluster, _):
    return ConfluentGroups(cluster.bootstrap_servers)


def kafka_python(cluster, _):
    return KafkaPythonGroups(cluster.bootstrap_servers)


def java(version):
    def make(cluster, home):
        try:
            java_driver.built(version)
        except java_driver.JavaMissing as missing:
            pytest.skip(str(missing))
        with (home / "jvm.log").open("w") as errors:
            driver = java_driver.JavaDriver(cluster.bootstrap_servers, version, errors)
        return JavaGroups(driver)

    return make


ADMINS = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    **{f"java-{version}": java(version) for version in ("3.9.1", "4.1.0")},
}


def refusal(act, *arguments):
    with pytest.raises(Refused) as refused:
        act(*arguments)
    return refused.value.error


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("confluent", "classic"),
        ("confluent", "new"),
        ("kafka-python", "classic"),
        ("java-3.9.1", "classic"),
        ("java-4.1.0", "classic"),
        ("java-4.1.0", "new"),
    ],
)
def test_an_administrator_sees_and_changes_a_group_as_far_as_its_members_allow(
    name, kind, cluster, tmp_path
):
    topic = cluster.topic(f"admin-{name}-{kind}", 2)
    live.write(cluster, topic, live.numbered("n", RECORDS))
    with (
        crew_of(cluster, topic, tmp_path) as crew,
        contextlib.closing(ADMINS[name](cluster, tmp_path)) as admin,
    ):
        group_id = crew.group_id
        member = crew.start("worker", MEMBERS[kind])
        until(lambda: admin.offsets(group_id).get(0) == RECORDS, "all is committed")
        until(lambda: admin.listed().get(group_id) == "stable", "it is stable")
        assert admin.described(group_id) == ("stable", {"worker": {0, 1}})
        assert refusal(admin.alter_offset, group_id, topic, 0, SOUGHT) == "UNKNOWN_MEMBER_ID"
        assert refusal(admin.delete, group_id) == "NON_EMPTY_GROUP"
        if type(admin).delete_offset is not GroupAdmin.delete_offset:
            refused = refusal(admin.delete_offset, group_id, topic, 0)
            assert refused == "GROUP_SUBSCRIBED_TO_TOPIC"
        assert admin.offsets(group_id) == {0: RECORDS}

        member.leave()
        until(lambda: admin.listed().get(group_id) == "empty", "it is empty")
        admin.alter_offset(group_id, topic, 0, SOUGHT)
        assert admin.offsets(group_id) == {0: SOUGHT}
        again = crew.start("again", MEMBERS[kind])
        assert again.wait("processed")["records"][0][:2] == [0, SOUGHT]
        again.wait("committed")
        again.leave()
        if type(admin).delete_offset is not GroupAdmin.delete_offset:
            admin.delete_offset(group_id, topic, 0)
            assert admin.offsets(group_id) == {}
        admin.delete(group_id)
        assert group_id not in admin.listed()
        assert refusal(admin.delete, group_id) == "GROUP_ID_NOT_FOUND"
