"""Has compaction taken only what it may? A slow, obvious oracle beside the fast code.

It is given every batch that was ever appended, and those that are found, and knows nothing of
clean points or key maps: the newest value of a key must be there, whatever has been cleaned.
"""

from collections.abc import Iterable, Sequence

from tidelog.wire.records import Record, decode, end_txn_marker, read_header


def compaction_faults(appended: Sequence[bytes], found: Sequence[bytes]) -> list[str]:
    """`found` is what is left of `appended`, in words if it is not."""
    written = {record.offset: record for record in records_of(appended)}
    left = {record.offset: record for record in records_of(found)}
    faults = [
        f"offset {offset} holds {record}, {written.get(offset)} was appended"
        for offset, record in left.items()
        if written.get(offset) != record
    ]
    for key, newest in newest_of_keys(appended).items():
        if newest.value is not None and newest.offset not in left:
            faults.append(f"the newest value of {key!r}, at {newest.offset}, is gone")
        if newest.value is None and newest.offset not in left:
            stale = [r.offset for r in committed(found) if r.key == key]
            if stale:
                faults.append(f"{key!r} was deleted at {newest.offset}, {stale} came back")
    end = read_header(appended[-1]).next_offset if appended else 0
    if end != (read_header(found[-1]).next_offset if found else 0):
        faults.append(f"the last batch does not end at {end}")
    return faults


def newest_of_keys(batches: Sequence[bytes]) -> dict[bytes, Record]:
    """The last committed record of each key. Transactions without an end do not count."""
    return {record.key: record for record in committed(batches) if record.key is not None}


def committed(batches: Sequence[bytes]) -> list[Record]:
    """Records outside of transactions and of those that were committed, in offset order."""
    kept: list[Record] = []
    open_records: dict[int, list[Record]] = {}
    for data in batches:
        header = read_header(data)
        if header.is_control:
            marker = end_txn_marker(data)
            ended = open_records.pop(header.producer_id, [])
            if marker is not None and marker.commit:
                kept += ended
        elif header.is_transactional:
            open_records.setdefault(header.producer_id, []).extend(decode(data))
        else:
            kept += decode(data)
    return sorted(kept, key=lambda record: record.offset)


def records_of(batches: Iterable[bytes]) -> list[Record]:
    """Those of clients; a marker is no record."""
    return [
        record for data in batches if not read_header(data).is_control for record in decode(data)
    ]
