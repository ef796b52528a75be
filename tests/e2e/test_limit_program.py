"""The limit program moves what it says it moves: the same bytes into three files."""

import struct
from pathlib import Path

import pytest

from tidelog.bench.limit.limit_row import COPY, LIMITS, SPLICE, LimitCase, figures_of, words_of
from tidelog.bench.limit.program import CompilerMissing, LimitFailed, compiled, run

FILES = ("leader.log", "follower-1.log", "follower-2.log")
LARGE = LIMITS["limit-produce-1k"]._replace(requests=7, request_bytes=300_001)
SMALL = LIMITS["limit-small-1"]._replace(requests=50)


def request_of(number: int, size_bytes: int) -> bytes:
    filling = bytes((place * 31 + 7) % 256 for place in range(size_bytes))
    return struct.pack("=Q", number) + filling[8:]


def logs_after(case: LimitCase, directory: Path) -> list[bytes]:
    run(words_of(case, 1.0), directory)
    return [(directory / name).read_bytes() for name in FILES]


@pytest.mark.parametrize(
    "case",
    [
        LARGE._replace(means=COPY),
        LARGE._replace(means=SPLICE),
        LARGE._replace(means=COPY, fsync=True),
        LARGE._replace(means=SPLICE, fsync=True),
        LARGE._replace(acks=1),
        SMALL,
        SMALL._replace(in_flight=5),
        LIMITS["limit-e2e-p50"]._replace(requests=50),
    ],
)
def test_every_request_is_in_all_three_files_in_the_order_it_was_sent(
    case: LimitCase, tmp_path: Path
) -> None:
    wanted = b"".join(request_of(each, case.request_bytes) for each in range(case.requests))
    assert logs_after(case, tmp_path) == [wanted] * 3


def test_requests_of_many_connections_are_not_mixed_and_none_is_missing(tmp_path: Path) -> None:
    case = LIMITS["limit-small-32"]._replace(requests=500, request_bytes=5_000, in_flight=3)
    leader, *followers = logs_after(case, tmp_path)
    assert followers == [leader] * 2
    size = case.request_bytes
    found = [leader[start : start + size] for start in range(0, len(leader), size)]
    assert sorted(found) == sorted(request_of(each, size) for each in range(case.requests))


@pytest.mark.parametrize("means", [COPY, SPLICE])
@pytest.mark.parametrize("key", ["limit-consume", "limit-consume-cold"])
def test_a_client_gets_the_whole_file_or_the_program_fails(means: str, key: str) -> None:
    """It compares the count itself."""
    figures = figures_of(LIMITS[key]._replace(requests=5, means=means))
    assert figures["bytes_per_second"] > 0


def test_every_documented_case_can_be_measured() -> None:
    for key, case in LIMITS.items():
        figures = figures_of(case._replace(requests=40, request_bytes=4_096))
        assert case.value_in(figures) > 0, key


def test_what_it_cannot_do_it_says_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        LimitFailed, match=r"^limit: .*/nowhere/follower-1.log: No such file"
    ) as told:
        run(words_of(SMALL, 1.0), tmp_path / "nowhere")
    assert "\n" not in str(told.value)
    with pytest.raises(LimitFailed, match=r"^limit: --requests 0: a number from 1 to"):
        run(["produce", "--requests", "0"], tmp_path)


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    compiled.cache_clear()
    try:
        with pytest.raises(CompilerMissing, match="install gcc"):
            figures_of(SMALL)
    finally:
        compiled.cache_clear()
