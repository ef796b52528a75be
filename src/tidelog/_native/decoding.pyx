# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""From record batches to columns. What each function promises: `contract.py`."""

from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_Resize,
)
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

cdef extern from "crc32c.h" nogil:
    void crc32c_prepare "tidelog_crc32c_prepare"()
    uint32_t crc32c "tidelog_crc32c"(const uint8_t* data, size_t size)
    uint32_t crc32c_by_table "tidelog_crc32c_by_table"(const uint8_t* data, size_t size)

cdef extern from "numbers.h" nogil:
    int64_t get_i64 "tidelog_get_i64"(const uint8_t* at)
    int64_t get_i32 "tidelog_get_i32"(const uint8_t* at)
    int64_t get_u32 "tidelog_get_u32"(const uint8_t* at)
    int64_t get_i16 "tidelog_get_i16"(const uint8_t* at)
    const uint8_t* read_varint "tidelog_read_varint"(
        const uint8_t* at, const uint8_t* end, int64_t* value
    )
    const uint8_t* read_varlong "tidelog_read_varlong"(
        const uint8_t* at, const uint8_t* end, int64_t* value
    )
    void prefetch "tidelog_prefetch"(const uint8_t* at)
    int add_overflows "tidelog_add_overflows"(int64_t a, int64_t b, int64_t* sum)
    int64_t to_microseconds "tidelog_to_microseconds"(int64_t ms)
    uint8_t* copy_text "tidelog_copy_text"(uint8_t* to, const uint8_t* at, const uint8_t* end)

crc32c_prepare()

# The columns of a batch table, in the order of `contract.FIELDS`.
cdef enum:
    POSITION, SIZE, BASE_OFFSET, LAST_OFFSET, LEADER_EPOCH, ATTRIBUTES, RECORD_COUNT
    BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, CRC, CRC_OK
    FIELD_COUNT

# The fields of one row of a plan, in the order of `contract.PLAN_FIELDS`.
cdef enum:
    PLAN_ROW, PLAN_SOURCE, PLAN_START, PLAN_BYTES
    PLAN_FIELD_COUNT

# The bits of `contract.WANT_…`.
cdef enum:
    WANT_KEY = 1
    WANT_VALUE = 2
    WANT_OFFSET = 4
    WANT_TIMESTAMP = 8
    WANT_TIMESTAMP_TYPE = 16
    WANT_HEADERS = 32

cdef enum:
    HEADER_SIZE = 61
    HEADER_SIZE_UP_TO_MAGIC = 17
    LENGTH_OVERHEAD = 12
    CRC_START = 21
    MAGIC = 2
    CODEC_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    SMALLEST_RECORD_BYTES = 7
    SMALLEST_RECORD_HEADER_BYTES = 2
    PREFETCH_BYTES = 768  # ahead of the record that is read: the longest wait was for the next one

cdef enum:
    WHOLE, TORN, GARBAGE

cdef uint8_t NOTHING = 0  # where the bytes of an empty buffer are, as NULL means trouble


cdef inline int judge(const uint8_t* at, int64_t left) noexcept nogil:
    """Whether a whole batch stands here, the beginning of one, or none."""
    cdef int64_t length, delta, base
    if left < HEADER_SIZE:
        if left >= HEADER_SIZE_UP_TO_MAGIC:
            if at[16] != MAGIC or get_i32(at + 8) < HEADER_SIZE - LENGTH_OVERHEAD:
                return GARBAGE
        return TORN
    length, delta, base = get_i32(at + 8), get_i32(at + 23), get_i64(at)
    if at[16] != MAGIC or length < HEADER_SIZE - LENGTH_OVERHEAD or get_i32(at + 57) < 0:
        return GARBAGE
    if delta < 0 or base < 0 or base > INT64_MAX - delta - 1:
        return GARBAGE
    return TORN if length + LENGTH_OVERHEAD > left else WHOLE


def crc32c_of(const uint8_t[::1] data not None, bint portable=False):
    """CRC-32C; `portable` asks for the way without the processor's instruction."""
    cdef const uint8_t* start = &data[0] if data.shape[0] else NULL
    return crc32c_by_table(start, data.shape[0]) if portable else crc32c(start, data.shape[0])


def scan(const uint8_t[::1] region not None, bint check_crc):
    cdef const uint8_t* data = &region[0] if region.shape[0] else NULL
    cdef int64_t size = region.shape[0], position = 0, count = 0, row = 0, end, length
    cdef int verdict = TORN
    cdef int64_t* columns
    with nogil:
        while position < size:
            verdict = judge(data + position, size - position)
            if verdict != WHOLE:
                break
            position += get_i32(data + position + 8) + LENGTH_OVERHEAD
            count += 1
    end, position = position, 0
    table = PyByteArray_FromStringAndSize(NULL, count * FIELD_COUNT * 8)
    columns = <int64_t*>PyByteArray_AS_STRING(table)
    with nogil:
        # Lengths are compared anew, as someone may have written into a mapped file meanwhile.
        while row < count and size - position >= HEADER_SIZE:
            length = get_i32(data + position + 8) + LENGTH_OVERHEAD
            if length < HEADER_SIZE or length > size - position:
                break
            fill_row(columns + row, count, data, position, length, check_crc)
            position += length
            row += 1
    if row < count:
        raise BufferError("the region changed while it was read")
    return table, count, end, end < size and verdict == GARBAGE


cdef inline void fill_row(
    int64_t* cell, int64_t count, const uint8_t* data, int64_t position, int64_t size,
    bint check_crc
) noexcept nogil:
    cdef const uint8_t* at = data + position
    cdef int64_t base = get_i64(at)
    cell[POSITION * count] = position
    cell[SIZE * count] = size
    cell[BASE_OFFSET * count] = base
    cell[LAST_OFFSET * count] = base + get_i32(at + 23)
    cell[LEADER_EPOCH * count] = get_i32(at + 12)
    cell[ATTRIBUTES * count] = get_i16(at + 21)
    cell[RECORD_COUNT * count] = get_i32(at + 57)
    cell[BASE_TIMESTAMP * count] = get_i64(at + 27)
    cell[MAX_TIMESTAMP * count] = get_i64(at + 35)
    cell[PRODUCER_ID * count] = get_i64(at + 43)
    cell[PRODUCER_EPOCH * count] = get_i16(at + 51)
    cell[BASE_SEQUENCE * count] = get_i32(at + 53)
    cell[CRC * count] = get_u32(at + 17)
    cell[CRC_OK * count] = -1
    if check_crc:
        cell[CRC_OK * count] = crc32c(at + CRC_START, size - CRC_START) == get_u32(at + 17)


cdef inline bint is_aborted(
    const int64_t* aborted, int64_t count, int64_t producer, int64_t offset
) noexcept nogil:
    """Rows of producer, first and last offset; sorted, ranges of one producer are apart."""
    cdef int64_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) // 2
        if aborted[3 * middle] < producer or (
            aborted[3 * middle] == producer and aborted[3 * middle + 1] <= offset
        ):
            low = middle + 1
        else:
            high = middle
    return low > 0 and aborted[3 * low - 3] == producer and offset <= aborted[3 * low - 1]


def pick(const uint8_t[::1] table not None, int64_t from_offset, int64_t to_offset,
         const uint8_t[::1] aborted not None):
    cdef int64_t count = table.shape[0] // (8 * FIELD_COUNT), row, picked = 0
    cdef const int64_t* cell = <const int64_t*>&table[0] if count else NULL
    cdef int64_t aborted_count = aborted.shape[0] // 24, attributes
    cdef const int64_t* ranges = <const int64_t*>&aborted[0] if aborted_count else NULL
    plan = PyByteArray_FromStringAndSize(NULL, count * PLAN_FIELD_COUNT * 8)
    cdef int64_t* item = <int64_t*>PyByteArray_AS_STRING(plan)
    with nogil:
        for row in range(count):
            if cell[LAST_OFFSET * count + row] < from_offset:
                continue
            if cell[BASE_OFFSET * count + row] >= to_offset:
                continue
            attributes = cell[ATTRIBUTES * count + row]
            # With a wrong checksum nothing that a batch says may hide it.
            if cell[CRC_OK * count + row] != 0 and (
                attributes & CONTROL_BIT
                or attributes & TRANSACTIONAL_BIT
                and is_aborted(
                    ranges, aborted_count, cell[PRODUCER_ID * count + row],
                    cell[BASE_OFFSET * count + row],
                )
            ):
                continue
            item[PLAN_ROW] = row
            item[PLAN_SOURCE] = -(attributes & CODEC_MASK)
            item[PLAN_START] = cell[POSITION * count + row] + HEADER_SIZE
            item[PLAN_BYTES] = cell[SIZE * count + row] - HEADER_SIZE
            item += PLAN_FIELD_COUNT
            picked += 1
    PyByteArray_Resize(plan, picked * PLAN_FIELD_COUNT * 8)
    return plan


def advance(const uint8_t[::1] plan not None, int64_t index, int64_t budget):
    cdef int64_t count = plan.shape[0] // (8 * PLAN_FIELD_COUNT), left = budget
    cdef const int64_t* item = <const int64_t*>&plan[0] if count else NULL
    if index < 0:
        raise ValueError(f"index {index}")
    while index < count and left > 0 and item[PLAN_FIELD_COUNT * index + PLAN_SOURCE] >= 0:
        left -= item[PLAN_FIELD_COUNT * index + PLAN_BYTES]
        index += 1
    return index, budget - left


# ---- records ----

cdef struct BytesColumn:
    uint8_t* valid
    int32_t* offsets
    uint8_t* data
    int64_t rows
    int64_t used
    int64_t nulls
    int64_t max_rows
    int64_t max_bytes


cdef struct Sink:
    BytesColumn key
    BytesColumn value
    BytesColumn header_key
    BytesColumn header_value
    int64_t* offset
    int64_t* timestamp
    int32_t* timestamp_type
    int32_t* header_offsets
    uint8_t* header_valid
    int64_t rows
    int64_t rows_without_headers


cdef struct Batch:
    int64_t base_offset
    int64_t last_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t record_count
    int64_t from_offset
    int64_t to_offset
    int64_t headers_left
    BytesColumn* full  # the column that had no room for a record of this batch
    int32_t timestamp_type


cdef inline bint has_room(BytesColumn* column, int64_t size, Batch* batch) noexcept nogil:
    if column.rows < column.max_rows and size <= column.max_bytes - column.used:
        return True
    batch.full = column
    return False


cdef inline void append_null(BytesColumn* column) noexcept nogil:
    cdef int64_t row = column.rows
    if row & 7 == 0:
        column.valid[row >> 3] = 0
    column.offsets[row + 1] = <int32_t>column.used
    column.rows = row + 1
    column.nulls += 1


cdef inline void append_bytes(BytesColumn* column, const uint8_t* at, int64_t size) noexcept nogil:
    cdef int64_t row = column.rows
    if row & 7 == 0:
        column.valid[row >> 3] = 0
    column.valid[row >> 3] |= <uint8_t>(1 << (row & 7))
    if size > 0:
        memcpy(column.data + column.used, at, size)
        column.used += size
    column.offsets[row + 1] = <int32_t>column.used
    column.rows = row + 1


cdef inline void append_text(BytesColumn* column, const uint8_t* at, int64_t size) noexcept nogil:
    cdef int64_t row = column.rows
    column.used = copy_text(column.data + column.used, at, at + size) - column.data
    column.offsets[row + 1] = <int32_t>column.used
    column.rows = row + 1


cdef inline const uint8_t* read_field(
    const uint8_t* at, const uint8_t* end, const uint8_t** start, int64_t* size
) noexcept nogil:
    """A length, -1 for null, and as many bytes; NULL if they do not fit."""
    at = read_varint(at, end, size)
    if at == NULL or size[0] < -1 or size[0] > end - at:
        return NULL
    start[0] = at
    return at if size[0] < 0 else at + size[0]


cdef const uint8_t* read_headers(
    const uint8_t* at, const uint8_t* end, Batch* batch, Sink* sink, bint keep
) noexcept nogil:
    cdef int64_t count = 0, key_bytes = 0, value_bytes = 0
    cdef const uint8_t* key = NULL
    cdef const uint8_t* value = NULL
    at = read_varint(at, end, &count)
    if at == NULL or count < 0 or count > (end - at) // SMALLEST_RECORD_HEADER_BYTES:
        return NULL
    batch.headers_left -= count
    if batch.headers_left < 0:
        return NULL
    for _ in range(count):
        at = read_field(at, end, &key, &key_bytes)
        if at == NULL or key_bytes < 0:
            return NULL
        at = read_field(at, end, &value, &value_bytes)
        if at == NULL:
            return NULL
        if keep:
            # A broken byte of a key becomes three.
            if not has_room(&sink.header_key, 3 * key_bytes, batch):
                return NULL
            if not has_room(&sink.header_value, value_bytes, batch):
                return NULL
            append_text(&sink.header_key, key, key_bytes)
            if value_bytes < 0:
                append_null(&sink.header_value)
            else:
                append_bytes(&sink.header_value, value, value_bytes)
    return at


cdef inline bint read_record(
    const uint8_t* at, const uint8_t* end, Batch* batch, Sink* sink, int64_t* next_delta
) noexcept nogil:
    """One record that must fill its bytes exactly; False if it does not."""
    cdef int64_t delta = 0, timestamp = 0, offset, key_bytes = 0, value_bytes = 0, row
    cdef const uint8_t* key = NULL
    cdef const uint8_t* value = NULL
    cdef bint keep
    at = read_varlong(at + 1, end, &delta)  # record attributes are unused
    if at == NULL or add_overflows(batch.base_timestamp, delta, &timestamp):
        return False
    at = read_varint(at, end, &delta)
    if at == NULL or delta < next_delta[0] or delta > batch.last_delta:
        return False
    next_delta[0] = delta + 1
    at = read_field(at, end, &key, &key_bytes)
    if at == NULL:
        return False
    at = read_field(at, end, &value, &value_bytes)
    if at == NULL:
        return False
    offset = batch.base_offset + delta
    keep = batch.from_offset <= offset < batch.to_offset
    if end - at == 1 and at[0] == 0:
        at = end
    else:
        at = read_headers(at, end, batch, sink, keep and sink.header_offsets != NULL)
        if at != end:
            return False
    if not keep:
        return True
    row = sink.rows
    if sink.key.offsets != NULL:
        if not has_room(&sink.key, key_bytes, batch):
            return False
        if key_bytes < 0:
            append_null(&sink.key)
        else:
            append_bytes(&sink.key, key, key_bytes)
    if sink.value.offsets != NULL:
        if value_bytes < 0:
            append_null(&sink.value)
        else:
            append_bytes(&sink.value, value, value_bytes)
    if sink.offset != NULL:
        sink.offset[row] = offset
    if sink.timestamp != NULL:
        if batch.timestamp_type == 1:
            timestamp = batch.max_timestamp
        sink.timestamp[row] = to_microseconds(timestamp)
    if sink.timestamp_type != NULL:
        sink.timestamp_type[row] = batch.timestamp_type
    if sink.header_offsets != NULL:
        end_headers(sink, row)
    sink.rows = row + 1
    return True


cdef inline void end_headers(Sink* sink, int64_t row) noexcept nogil:
    """A record without headers has null, not an empty list: so does the stock connector."""
    cdef bint some = sink.header_key.rows > sink.header_offsets[row]
    if row & 7 == 0:
        sink.header_valid[row >> 3] = 0
    sink.header_valid[row >> 3] |= <uint8_t>(some << (row & 7))
    sink.rows_without_headers += not some
    sink.header_offsets[row + 1] = <int32_t>sink.header_key.rows


cdef bint read_batch(const uint8_t* at, int64_t size, Batch* batch, Sink* sink) noexcept nogil:
    """Every record of one batch; False, and the sink as it was, if one cannot be read."""
    cdef Sink before = sink[0]
    cdef const uint8_t* end = at + size
    cdef int64_t length = 0, next_delta = 0
    for _ in range(batch.record_count):
        prefetch(at + PREFETCH_BYTES)
        at = read_varint(at, end, &length)
        if at == NULL or length < SMALLEST_RECORD_BYTES - 1 or length > end - at:
            sink[0] = before
            return False
        if not read_record(at, at + length, batch, sink, &next_delta):
            sink[0] = before
            return False
        at += length
    if at != end:
        sink[0] = before
        return False
    return True


cdef struct Source:
    const int64_t* cell
    int64_t count
    const int64_t* plan
    const uint8_t* region
    int64_t region_bytes
    const uint8_t* scratch
    int64_t scratch_bytes


cdef const uint8_t* locate(
    Source* source, int64_t index, int64_t* row, int64_t* size
) noexcept nogil:
    """Where the plain records of a planned batch lie; NULL if they cannot lie there."""
    cdef const int64_t* item = source.plan + PLAN_FIELD_COUNT * index
    cdef int64_t start = item[PLAN_START], total
    row[0], size[0] = item[PLAN_ROW], item[PLAN_BYTES]
    if row[0] < 0 or row[0] >= source.count or start < 0 or size[0] < 0:
        return NULL
    if source.cell[CRC_OK * source.count + row[0]] == 0 or item[PLAN_SOURCE] < 0:
        return NULL
    total = source.scratch_bytes if item[PLAN_SOURCE] else source.region_bytes
    if start > total or size[0] > total - start:
        return NULL
    return (source.scratch if item[PLAN_SOURCE] else source.region) + start


cdef int64_t measure(
    Source* source, int64_t start, int64_t stop, int64_t max_bytes, int64_t max_items,
    int64_t* rows, int64_t* size_bytes
) noexcept nogil:
    """How far the plan can be followed as its headers tell, and the most it can come to."""
    cdef int64_t index, row = 0, size = 0, records
    for index in range(start, stop):
        if locate(source, index, &row, &size) == NULL:
            return index
        records = source.cell[RECORD_COUNT * source.count + row]
        if size > max_bytes or records > max_items:
            return index
        if records < 0 or records > size // SMALLEST_RECORD_BYTES:
            return index
        rows[0] += records
        size_bytes[0] += size
    return stop


cdef int64_t read_batches(
    Source* source, int64_t start, int64_t stop, Batch* common, Sink* sink
) noexcept nogil:
    """The batch it stopped before, because it is broken or because a column is full."""
    cdef Batch batch
    cdef int64_t index, row = 0, size = 0, attributes
    cdef const uint8_t* at
    cdef const int64_t* cell
    for index in range(start, stop):
        at = locate(source, index, &row, &size)
        cell = source.cell + row
        batch = common[0]
        attributes = cell[ATTRIBUTES * source.count]
        batch.base_offset = cell[BASE_OFFSET * source.count]
        batch.last_delta = cell[LAST_OFFSET * source.count] - batch.base_offset
        batch.base_timestamp = cell[BASE_TIMESTAMP * source.count]
        batch.max_timestamp = cell[MAX_TIMESTAMP * source.count]
        batch.record_count = cell[RECORD_COUNT * source.count]
        batch.headers_left -= batch.record_count
        batch.timestamp_type = 1 if attributes & LOG_APPEND_TIME_BIT else 0
        if not read_batch(at, size, &batch, sink):
            common.full = batch.full
            return index
    return stop


cdef class Room:
    """The buffers of one piece: as large as they may become, cut to what they became.

    Values take what they may need at most. Keys and headers are mostly small and begin smaller:
    pieces stay below what the C library gives back to the system when they are freed, and the
    next piece finds its pages there.
    """

    cdef dict buffers

    def __cinit__(self):
        self.buffers = {}

    cdef void* take(self, str name, int64_t size_bytes) except NULL:
        made = PyByteArray_FromStringAndSize(NULL, size_bytes)
        self.buffers[name] = made
        return PyByteArray_AS_STRING(made)

    cdef int cut(self, str name, int64_t size_bytes) except -1:
        PyByteArray_Resize(self.buffers[name], size_bytes)
        return 0

    cdef int take_bytes(self, str name, BytesColumn* column, int64_t rows, int64_t size) except -1:
        column.valid = <uint8_t*>self.take(name + ".valid", rows // 8 + 1)
        column.offsets = <int32_t*>self.take(name + ".offsets", 4 * (rows + 1))
        column.data = <uint8_t*>self.take(name + ".data", size)
        column.offsets[0] = 0
        column.max_rows, column.max_bytes = rows, size
        return 0

    cdef int grow(self, str name, BytesColumn* column) except -1:
        """Twice the room, for a column that is full; what it holds is kept."""
        cdef int64_t rows = 2 * column.max_rows + 64, size = 2 * column.max_bytes + 4096
        self.cut(name + ".valid", rows // 8 + 1)
        self.cut(name + ".offsets", 4 * (rows + 1))
        self.cut(name + ".data", size)
        column.valid = <uint8_t*>PyByteArray_AS_STRING(self.buffers[name + ".valid"])
        column.offsets = <int32_t*>PyByteArray_AS_STRING(self.buffers[name + ".offsets"])
        column.data = <uint8_t*>PyByteArray_AS_STRING(self.buffers[name + ".data"])
        column.max_rows, column.max_bytes = rows, size
        return 0

    cdef int cut_bytes(self, str name, BytesColumn* column) except -1:
        if column.nulls:
            self.cut(name + ".valid", (column.rows + 7) // 8)
        else:
            del self.buffers[name + ".valid"]
        self.cut(name + ".offsets", 4 * (column.rows + 1))
        self.cut(name + ".data", column.used)
        return 0


cdef int take_room(Room room, Sink* sink, int wanted, int64_t rows, int64_t size) except -1:
    if wanted & WANT_KEY:
        room.take_bytes("key", &sink.key, rows, size // 8)
    if wanted & WANT_VALUE:
        room.take_bytes("value", &sink.value, rows, size)
    if wanted & WANT_OFFSET:
        sink.offset = <int64_t*>room.take("offset", 8 * rows)
    if wanted & WANT_TIMESTAMP:
        sink.timestamp = <int64_t*>room.take("timestamp", 8 * rows)
    if wanted & WANT_TIMESTAMP_TYPE:
        sink.timestamp_type = <int32_t*>room.take("timestampType", 4 * rows)
    if wanted & WANT_HEADERS:
        sink.header_offsets = <int32_t*>room.take("headers.offsets", 4 * (rows + 1))
        sink.header_offsets[0] = 0
        sink.header_valid = <uint8_t*>room.take("headers.valid", rows // 8 + 1)
        room.take_bytes("headers.key", &sink.header_key, rows, size // 8)
        room.take_bytes("headers.value", &sink.header_value, rows, size // 8)
    return 0


cdef int grow_full(Room room, Sink* sink, BytesColumn* full) except -1:
    if full == &sink.key:
        return room.grow("key", full)
    if full == &sink.header_key:
        return room.grow("headers.key", full)
    return room.grow("headers.value", full)


cdef int cut_room(Room room, Sink* sink) except -1:
    if sink.key.offsets != NULL:
        room.cut_bytes("key", &sink.key)
    if sink.value.offsets != NULL:
        room.cut_bytes("value", &sink.value)
    if sink.offset != NULL:
        room.cut("offset", 8 * sink.rows)
    if sink.timestamp != NULL:
        room.cut("timestamp", 8 * sink.rows)
    if sink.timestamp_type != NULL:
        room.cut("timestampType", 4 * sink.rows)
    if sink.header_offsets != NULL:
        room.cut("headers.offsets", 4 * (sink.rows + 1))
        if sink.rows_without_headers:
            room.cut("headers.valid", (sink.rows + 7) // 8)
        else:
            del room.buffers["headers.valid"]
        room.cut_bytes("headers.key", &sink.header_key)
        room.cut_bytes("headers.value", &sink.header_value)
    return 0


def decode(
    const uint8_t[::1] region not None,
    const uint8_t[::1] scratch not None,
    const uint8_t[::1] table not None,
    const uint8_t[::1] plan not None,
    *,
    span,
    bounds,
    int wanted,
    limits,
):
    cdef int64_t start = span[0], stop = span[1], rows = 0, size_bytes = 0
    cdef Source source
    cdef Sink sink
    cdef Batch common
    cdef int64_t max_bytes = limits[0], max_items = limits[1]
    memset(&sink, 0, sizeof(Sink))
    memset(&common, 0, sizeof(Batch))
    common.from_offset, common.to_offset = bounds
    common.headers_left = max_items
    source.count = table.shape[0] // (8 * FIELD_COUNT)
    source.cell = <const int64_t*>&table[0] if source.count else NULL
    if start < 0 or stop > plan.shape[0] // (8 * PLAN_FIELD_COUNT):
        raise ValueError(f"batches {start} to {stop} are not in the plan")
    source.plan = <const int64_t*>&plan[0] if stop else NULL
    source.region_bytes, source.scratch_bytes = region.shape[0], scratch.shape[0]
    source.region = &region[0] if region.shape[0] else &NOTHING
    source.scratch = &scratch[0] if scratch.shape[0] else &NOTHING
    with nogil:
        stop = measure(&source, start, stop, max_bytes, max_items, &rows, &size_bytes)
    if 3 * size_bytes > 0x7FFFFFFF:
        raise OverflowError(f"{size_bytes} bytes of records do not fit into one piece")
    room = Room()
    take_room(room, &sink, wanted, rows, size_bytes)
    while start < stop:
        with nogil:
            start = read_batches(&source, start, stop, &common, &sink)
        if common.full == NULL:
            break
        grow_full(room, &sink, common.full)
        common.full = NULL
    stop = start
    cut_room(room, &sink)
    return sink.rows, stop, sink.header_key.rows, room.buffers
