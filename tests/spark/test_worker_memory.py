"""What workers keep from task to task."""

import gc

import pytest

from tidelog.spark import worker_memory


@pytest.fixture
def frozen_again():
    yield
    gc.unfreeze()
    worker_memory._kept_in.clear()


@pytest.mark.usefixtures("frozen_again")
def test_what_a_worker_has_loaded_is_not_looked_at_after_every_task(monkeypatch):
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    worker_memory.keep_what_is_loaded()
    kept = gc.get_freeze_count()
    assert kept > 10_000
    later = [[] for _ in range(1000)]
    worker_memory.keep_what_is_loaded()
    assert gc.get_freeze_count() <= kept, "what tasks make is not kept for ever"
    assert len(later) == 1000


@pytest.mark.usefixtures("frozen_again")
def test_a_process_that_is_no_worker_of_sparks_collects_as_ever(monkeypatch):
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    before = gc.get_freeze_count()
    worker_memory.keep_what_is_loaded()
    assert gc.get_freeze_count() == before
