"""What the compiled kernel and its Python twin both promise, and the layouts they share.

Numbers in tables and plans are int64 in the byte order of the machine. Columns go in and out as
plain Arrow buffers: validity bits, int32 offsets, data.
"""

from typing import Final, NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

FIELDS: Final = (
    "position",
    "size_bytes",
    "base_offset",
    "last_offset",
    "leader_epoch",
    "attributes",
    "record_count",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "crc",
    "crc_ok",
)
"""The columns of a batch table, one after the other. `crc_ok` is 1, 0, or -1 if not checked."""

PLAN_FIELDS: Final = ("row", "source", "start", "size_bytes")
"""A planned batch: its row in the table, and where its plain records lie. The source is 0 for
the region, 1 for the scratch buffer, and less than 0 while they are compressed."""

WANT_KEY: Final = 1
WANT_VALUE: Final = 2
WANT_OFFSET: Final = 4
WANT_TIMESTAMP: Final = 8
WANT_TIMESTAMP_TYPE: Final = 16
WANT_HEADERS: Final = 32

FINE: Final = 0
HEADER_WITHOUT_KEY: Final = 1
RECORD_TOO_LARGE: Final = 2

ENTRY_FIELDS: Final = ("partition", "start", "end", "record_count")
"""An encoded batch: where it lies in the bytes that came out."""


class BytesColumn(NamedTuple):
    """A binary Arrow array; `first` is where its rows begin in the buffers."""

    valid: Buffer | None
    offsets: Buffer
    data: Buffer | None
    first: int


class Int32Column(NamedTuple):
    valid: Buffer | None
    numbers: Buffer
    first: int


class HeadersColumn(NamedTuple):
    """A list array of (key, value); `items` is the length of both columns inside."""

    valid: Buffer | None
    offsets: Buffer
    first: int
    items: int
    key: BytesColumn
    value: BytesColumn


class Decoding(Protocol):
    """From record batches to columns."""

    def scan(self, region: Buffer, check_crc: bool) -> tuple[bytearray, int, int, bool]:
        """A table of the whole batches, their number, where they end, and whether what
        follows them is garbage. A torn batch at the end is not garbage."""

    def pick(self, table: Buffer, from_offset: int, to_offset: int, aborted: Buffer) -> bytearray:
        """A plan of the batches with records for a reader between two offsets, the second one
        excluded. `aborted` has rows of producer, first and last offset, sorted, disjoint. A
        batch with a wrong checksum is in it whatever it says of itself."""

    def advance(self, plan: Buffer, index: int, budget: int) -> tuple[int, int]:
        """The first batch from `index` that is compressed or begins after `budget` plain bytes,
        and the bytes before it."""

    def decode(
        self,
        region: Buffer,
        scratch: Buffer,
        table: Buffer,
        plan: Buffer,
        *,
        span: tuple[int, int],
        bounds: tuple[int, int],
        wanted: int,
        limits: tuple[int, int],
    ) -> tuple[int, int, int, dict[str, bytearray]]:
        """Records of the planned batches of `span` with offsets in `bounds`: rows, the batch it
        stopped before, headers, buffers. It stops early before a batch that is not readable, or
        larger than `limits`, which are those of `DecodeLimits`."""


class Chain(Protocol):
    """Batches one after the other, as a log has them."""

    def follow(
        self, region: Buffer, next_offset: int, end_offset: int, leader_epoch: int
    ) -> tuple[int, int]:
        """Where the batches end that begin with `next_offset`, follow one another without a gap,
        end before `end_offset`, are of this epoch, whole and with the right checksum; and the
        offset behind the last of them."""


class Walk(Protocol):
    """The records of one batch, looked at as a producer's are."""

    def walk(
        self,
        plain: Buffer,
        start: int,
        record_count: int,
        base_timestamp: int,
        max_items: int,
    ) -> tuple[int, int, int] | None:
        """None unless exactly `record_count` records fill the bytes from `start` on, with
        offset deltas that count up from 0, lengths that are true, timestamps of 64 bits, and no
        more than `max_items` records and headers.

        Of good ones: how many have no key, the earliest timestamp, and the latest. Records
        without a timestamp (-1) do not count as early; the largest number there is stands for
        "no earliest", and the latest is at least -1."""


class Encoding(Protocol):
    """From columns to record batches."""

    def assign(
        self,
        rows: int,
        *,
        keys: BytesColumn | None,
        values: BytesColumn | None,
        explicit: Int32Column | None,
        partitions: int,
        sticky: tuple[int, int],
        batch_bytes: int,
    ) -> tuple[bytearray, tuple[int, int], int]:
        """A partition for every row: the explicit one, else by key, else the sticky one. The
        sticky one changes after `batch_bytes`; `sticky` is (partition, bytes it got). The last
        value is a row whose explicit partition does not exist, or -1."""

    def encode(
        self,
        row_count: int,
        *,
        keys: BytesColumn | None,
        values: BytesColumn | None,
        headers: HeadersColumn | None,
        timestamps: Buffer | None,
        assigned: Buffer,
        partitions: int,
        timestamp_ms: int,
        attributes: int,
        max_batch_bytes: int,
        max_items: int,
    ) -> tuple[bytearray | None, bytearray | None, int, int]:
        """Batches with plain records, partition by partition, and their entries; or what is
        wrong and with which row. A record that alone is more than `max_batch_bytes` has a batch
        to itself; `max_items` bounds records plus headers in the same way."""

    def restamp(
        self,
        region: WritableBuffer,
        positions: Buffer,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        transactional: bool,
    ) -> int:
        """Enters a producer into the batches at these positions, their checksums anew, and
        gives the sequence after the last of them."""
