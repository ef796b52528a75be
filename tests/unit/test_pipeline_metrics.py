"""What a pipeline tells Prometheus, also when it has failed."""

import threading
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines.batches import Batch
from tidelog.spark.pipelines.metrics import Address, Figures, served

ANY = Address("127.0.0.1", 0)
LONG_S = 60.0


def batch(number, **fields):
    plain = Batch(number, 10, 8, 1.5, 6.7, {}, {("t", 0): 5, ("t", 1): 7}, {})
    return plain._replace(latest={("t", 0): 5, ("t", 1): 9}, **fields)


def figures():
    return Figures("mine", "archive", {"restarts": 3, "failures": 1}.__getitem__)


def scraped(url):
    """By name without the prefix, and the labels that differ in the order of their names."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("pipeline"), labels.pop("kind")) == ("mine", "archive")
            values = [labels[name] for name in sorted(labels)]
            found[sample.name.removeprefix("tidelog_pipeline_"), *values] = sample.value
    return found


def test_batches_rows_lag_and_bad_records_are_counted():
    of_mine = figures()
    with served(of_mine, ANY, 0) as url:
        assert scraped(url)["batches_total",] == 0
        of_mine.batch(batch(0, bad=("dead_letters", 2)))
        of_mine.batch(batch(1, rows_out=None))
        found = scraped(url)
    assert found["batches_total",] == 2
    assert (found["rows_in_total",], found["rows_out_total",]) == (20, 8)
    assert found["bad_records_total", "dead_letters"] == 2
    assert found["lag_offsets", "0", "t"] == 0
    assert found["lag_offsets", "1", "t"] == 2
    assert (found["last_batch_number",], found["last_batch_duration_seconds",]) == (1, 1.5)
    assert found["last_success_timestamp_seconds",] > 1e9
    assert (found["restarts_total",], found["failures_total",]) == (3, 1)
    assert (found["state", "running"], found["state", "failed"]) == (1, 0)


def test_a_failure_is_served_until_somebody_has_asked():
    urls, seen = [], []

    def fails(broken, url_known):
        with served(broken, ANY, LONG_S) as url:
            urls.append(url)
            url_known.set()
            raise TidelogError("it broke", "mend it")

    known = threading.Event()

    def run():
        with pytest.raises(TidelogError):
            fails(figures(), known)

    runner = threading.Thread(target=run)
    runner.start()
    assert known.wait(10)
    while not seen or seen[-1]["state", "failed"] != 1:
        seen.append(scraped(urls[0]))
    runner.join(10)
    assert not runner.is_alive(), "it was asked, so nothing keeps it"


def test_nobody_asks_after_a_failure_for_longer_than_was_said():
    with pytest.raises(TidelogError), served(figures(), ANY, 0.01):
        raise TidelogError("it broke", "mend it")


def test_a_port_that_is_taken_is_told():
    with served(figures(), ANY, 0) as url:
        port = int(url.split(":")[2].partition("/")[0])
        with (
            pytest.raises(TidelogError, match=f"metrics cannot be served at 127.0.0.1:{port}"),
            served(figures(), Address("127.0.0.1", port), 0),
        ):
            raise AssertionError("nobody gets here")


def test_without_a_port_nobody_listens():
    with served(figures(), None, 0) as url:
        assert url is None
