"""What a table does not need any more: old versions, and files that are in none of those kept."""

import datetime as dt
from typing import Any, NamedTuple, Protocol

from tidelog.spark.tables.layouts import OURS, iceberg_data, memory_of
from tidelog.spark.tables.stores import Store, told
from tidelog.spark.tables.words import DELTA, TableSpec

HOUR_MS, MINUTE_MS = 3_600_000, 60_000


class Unused(NamedTuple):
    snapshots: int
    """Of Iceberg; Delta has none that are taken away."""
    files: tuple[str, ...]


class Upkeep(Protocol):
    def unused(self, before_ms: int) -> Unused:
        """What is older and not needed."""

    def clear(self, before_ms: int) -> Unused:
        """The same, and it is gone."""


def upkeep_of(spec: TableSpec) -> Upkeep:
    return DeltaUpkeep(spec) if spec.form == DELTA else IcebergUpkeep(spec)


class DeltaUpkeep:
    """delta-rs knows which files no version of the log names that is young enough."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec

    def unused(self, before_ms: int) -> Unused:
        return self._vacuum(before_ms, dry=True)

    def clear(self, before_ms: int) -> Unused:
        return self._vacuum(before_ms, dry=False)

    def _vacuum(self, before_ms: int, *, dry: bool) -> Unused:
        from deltalake import DeltaTable  # noqa: PLC0415 - only for tables of this form

        with told(self._spec.store, "cannot clear"):
            table = DeltaTable(self._spec.path, storage_options=self._spec.store.delta_options())
            now_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
            # In whole hours, rounded up; what passed since somebody looked at the clock is none.
            age_ms = now_ms - before_ms - MINUTE_MS
            hours = max(0, -(-age_ms // HOUR_MS))
            given: dict[str, Any] = {"enforce_retention_duration": False, "full": True}
            # It names files again that are gone already.
            there = _all_files(self._spec.store)
            files = [each for each in table.vacuum(hours, **given) if each in there]
            if not dry:
                table.vacuum(hours, dry_run=False, **given)
            memories = _forgotten(self._spec, before_ms, self._names(table))
            if not dry:
                _remove(self._spec, memories)
        return Unused(0, (*files, *memories))

    def _names(self, table: Any) -> set[str]:
        return {each.rpartition("/")[2] for each in table.file_uris()}


class IcebergUpkeep:
    """Snapshots are expired, then files go that no snapshot names."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec

    def unused(self, before_ms: int) -> Unused:
        table = self._table()
        old = self._old(table, before_ms)
        return Unused(len(old), self._orphans(table, before_ms, without=old))

    def clear(self, before_ms: int) -> Unused:
        table = self._table()
        old = self._old(table, before_ms)
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()
            table = self._table()
        files = self._orphans(table, before_ms, without=[])
        _remove(self._spec, files)
        return Unused(len(old), files)

    def _table(self) -> Any:
        from tidelog.spark.tables.catalogs import open_catalog, table_name  # noqa: PLC0415

        with open_catalog(self._spec) as catalog:
            return catalog.load_table(table_name(self._spec))

    def _old(self, table: Any, before_ms: int) -> list[int]:
        kept = {each.snapshot_id for each in table.metadata.refs.values()}
        return [
            each.snapshot_id
            for each in table.metadata.snapshots
            if each.timestamp_ms < before_ms and each.snapshot_id not in kept
        ]

    def _orphans(self, table: Any, before_ms: int, *, without: list[int]) -> tuple[str, ...]:
        """Data files only; the metadata are pyiceberg's own matter, which keeps the last few."""
        named: set[str] = set()
        for snapshot in table.metadata.snapshots:
            if snapshot.snapshot_id in without:
                continue
            for manifest in snapshot.manifests(table.io):
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                named |= {each.data_file.file_path.rpartition("/")[2] for each in entries}
        data = _older(iceberg_data(self._spec), before_ms)
        orphans = [f"data/{each}" for each in data if each not in named]
        return (*orphans, *_forgotten(self._spec, before_ms, named))


def _forgotten(spec: TableSpec, before_ms: int, named: set[str]) -> tuple[str, ...]:
    """What was remembered beside files that are in no version any more."""
    old = _older(memory_of(spec, "any").above(), before_ms)
    return tuple(f"{OURS}/memory/{each}" for each in old if each not in named)


def _older(directory: Store, before_ms: int) -> list[str]:
    """Names of files that were written before."""
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 - an extra

    filesystem, place = directory.filesystem()
    found = filesystem.get_file_info(FileSelector(place, allow_not_found=True))
    return sorted(
        each.base_name
        for each in found
        if each.type == FileType.File and each.mtime.timestamp() * 1000 < before_ms
    )


def _all_files(store: Store) -> set[str]:
    """Names below a place."""
    from pyarrow.fs import FileSelector  # noqa: PLC0415 - an extra

    filesystem, place = store.filesystem()
    found = filesystem.get_file_info(FileSelector(place, recursive=True, allow_not_found=True))
    return {each.path[len(place) :].strip("/") for each in found}


def _remove(spec: TableSpec, names: tuple[str, ...]) -> None:
    with told(spec.store, "cannot remove from"):
        for name in names:
            filesystem, place = spec.store.below(*name.split("/")).filesystem()
            filesystem.delete_file(place)
