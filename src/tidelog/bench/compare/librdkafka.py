"""librdkafka as a client that makes load, in a process of its own."""

from typing import Final

from tidelog.bench.compare.client_process import run_client
from tidelog.bench.compare.load_clients import ConsumeJob, ProduceJob

MODULE: Final = "tidelog.bench.compare.rdkafka_client"


class Librdkafka:
    """Through confluent-kafka."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "librdkafka"

    def produce(self, job: ProduceJob) -> float:
        settings = {"bootstrap.servers": job.bootstrap_servers, **job.settings}
        found = run_client(MODULE, {"work": "produce", **job._asdict(), "settings": settings})
        return job.records / float(found["seconds"])

    def consume(self, job: ConsumeJob) -> float:
        found = run_client(MODULE, {"work": "consume", **_reading(job)})
        return float(found["records"]) / float(found["seconds"])

    def read_back(self, job: ConsumeJob, record_bytes: int) -> int:
        """How many records were read and are the same as those written."""
        work = {"work": "read_back", **_reading(job), "record_bytes": record_bytes}
        return int(run_client(MODULE, work)["records"])


def _reading(job: ConsumeJob) -> dict[str, object]:
    settings = {"bootstrap.servers": job.bootstrap_servers, **job.settings}
    return {**job._asdict(), "settings": settings}
