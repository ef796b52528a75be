# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""From columns to record batches. What each function promises: `contract.py`."""

from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_Resize,
)
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "crc32c.h" nogil:
    void crc32c_prepare "tidelog_crc32c_prepare"()
    uint32_t crc32c "tidelog_crc32c"(const uint8_t* data, size_t size)

cdef extern from "murmur2.h" nogil:
    uint32_t murmur2 "tidelog_murmur2"(const uint8_t* data, size_t size)

cdef extern from "numbers.h" nogil:
    int64_t get_i32 "tidelog_get_i32"(const uint8_t* at)
    int64_t get_i16 "tidelog_get_i16"(const uint8_t* at)
    void put_be "tidelog_put_be"(uint8_t* at, uint64_t value, int bytes)
    int varint_bytes "tidelog_varint_bytes"(int64_t value)
    uint8_t* write_varint "tidelog_write_varint"(uint8_t* at, int64_t value)
    int subtract_overflows "tidelog_subtract_overflows"(int64_t a, int64_t b, int64_t* difference)

crc32c_prepare()

cdef enum:
    HEADER_SIZE = 61
    LENGTH_OVERHEAD = 12
    CRC_START = 21
    MAGIC = 2
    TRANSACTIONAL_BIT = 0x10
    # Length, attributes, timestamp and offset deltas, two lengths and a count, at their longest.
    RECORD_OVERHEAD_BYTES = 5 + 1 + 10 + 5 + 5 + 5 + 5
    RECORD_HEADER_OVERHEAD_BYTES = 5 + 5
    BATCH_FIELD_COUNT = 4

# What `contract` calls by the same names.
cdef enum:
    FINE, HEADER_WITHOUT_KEY, RECORD_TOO_LARGE


# ---- columns that come in ----

cdef struct Bytes:
    const uint8_t* valid
    const int32_t* offsets
    const uint8_t* data
    int64_t first


cdef struct Headers:
    const uint8_t* valid
    const int32_t* offsets
    int64_t first
    Bytes key
    Bytes value


cdef inline bint is_set(const uint8_t* bits, int64_t index) noexcept nogil:
    return bits == NULL or bits[index >> 3] >> (index & 7) & 1


cdef inline int64_t size_of(const Bytes* column, int64_t row) noexcept nogil:
    """Bytes of one value; -1 for null, also where there is no such column."""
    if column.offsets == NULL or not is_set(column.valid, column.first + row):
        return -1
    return column.offsets[column.first + row + 1] - column.offsets[column.first + row]


cdef inline const uint8_t* data_of(const Bytes* column, int64_t row) noexcept nogil:
    return column.data + column.offsets[column.first + row]


cdef class Inputs:
    """Holds the buffers of columns while pointers into them are in use."""

    cdef list views

    def __cinit__(self):
        self.views = []

    cdef const uint8_t* pointer(self, object buffer, int64_t size_bytes) except? NULL:
        """Where a buffer begins that has at least so many bytes; NULL for none."""
        if buffer is None:
            if size_bytes:
                raise ValueError("a column without a buffer")
            return NULL
        cdef const uint8_t[::1] view = buffer
        if view.shape[0] < size_bytes:
            raise ValueError(f"a buffer of {view.shape[0]} bytes where {size_bytes} are needed")
        self.views.append(view)
        return &view[0] if view.shape[0] else NULL

    cdef int check_offsets(self, const int32_t* offsets, int64_t count, int64_t end) except -1:
        """Once for the whole column, so that no length has to be doubted later."""
        cdef int64_t index
        cdef bint rises = offsets[0] >= 0 and offsets[count] <= end
        with nogil:
            for index in range(count):
                rises &= offsets[index] <= offsets[index + 1]
        if not rises:
            raise ValueError("the offsets of a column do not rise or leave its data")
        return 0

    cdef int64_t bind(self, object column, int64_t rows, Bytes* into) except -1:
        """Binds (valid, offsets, data, first) of a binary column; says how many bytes it has."""
        valid, offsets, data, first = column
        into.first = first
        if into.first < 0 or rows < 0:
            raise ValueError(f"rows {rows} from {into.first}")
        if valid is not None:
            into.valid = self.pointer(valid, (into.first + rows + 7) // 8)
        into.offsets = <const int32_t*>self.pointer(offsets, 4 * (into.first + rows + 1))
        self.check_offsets(into.offsets + into.first, rows, 0 if data is None else len(data))
        into.data = self.pointer(data, 0)
        return into.offsets[into.first + rows] - into.offsets[into.first]

    cdef int64_t bind_headers(self, object column, int64_t rows, Headers* into) except -1:
        """Binds (valid, offsets, first, items, key, value); says the most they can come to."""
        valid, offsets, first, items, key, value = column
        cdef int64_t item_count = items
        into.first = first
        if into.first < 0 or rows < 0 or item_count < 0:
            raise ValueError(f"rows {rows} from {into.first}")
        if valid is not None:
            into.valid = self.pointer(valid, (into.first + rows + 7) // 8)
        into.offsets = <const int32_t*>self.pointer(offsets, 4 * (into.first + rows + 1))
        self.check_offsets(into.offsets + into.first, rows, item_count)
        cdef int64_t size = self.bind(key, item_count, &into.key)
        return size + self.bind(value, item_count, &into.value) + (
            item_count * RECORD_HEADER_OVERHEAD_BYTES
        )


# ---- partitions ----

def murmur2_of(const uint8_t[::1] data not None):
    return murmur2(&data[0] if data.shape[0] else NULL, data.shape[0])


def assign(int64_t rows, *, keys, values, explicit, int64_t partitions, sticky,
           int64_t batch_bytes):
    cdef Inputs inputs = Inputs()
    cdef Bytes key, value
    cdef const uint8_t* chosen_valid = NULL
    cdef const int32_t* chosen = NULL
    cdef int64_t chosen_first = 0, current = sticky[0], spent = sticky[1], row, size, bad = -1
    memset(&key, 0, sizeof(Bytes))
    memset(&value, 0, sizeof(Bytes))
    if partitions <= 0 or partitions > INT32_MAX or not 0 <= current < partitions:
        raise ValueError(f"partition {current} of {partitions}")
    if keys is not None:
        inputs.bind(keys, rows, &key)
    if values is not None:
        inputs.bind(values, rows, &value)
    if explicit is not None:
        valid, numbers, chosen_first = explicit
        if chosen_first < 0:
            raise ValueError(f"rows from {chosen_first}")
        if valid is not None:
            chosen_valid = inputs.pointer(valid, (chosen_first + rows + 7) // 8)
        chosen = <const int32_t*>inputs.pointer(numbers, 4 * (chosen_first + rows))
    assigned = PyByteArray_FromStringAndSize(NULL, 4 * rows)
    cdef int32_t* out = <int32_t*>PyByteArray_AS_STRING(assigned)
    with nogil:
        for row in range(rows):
            if chosen != NULL and is_set(chosen_valid, chosen_first + row):
                out[row] = chosen[chosen_first + row]
                if out[row] < 0 or out[row] >= partitions:
                    bad = row
                    break
                continue
            size = size_of(&key, row)
            if size >= 0:
                out[row] = (murmur2(data_of(&key, row), size) & 0x7FFFFFFF) % <uint32_t>partitions
                continue
            if spent >= batch_bytes:
                current = (current + 1) % partitions
                spent = 0
            size = size_of(&value, row)
            spent += (size if size > 0 else 0) + 8
            out[row] = <int32_t>current
    return assigned, (current, spent), bad


cdef bint sort_rows(const int32_t* assigned, int64_t rows, int64_t* starts, int64_t partitions,
                    int32_t* order) noexcept nogil:
    """Rows by partition, each partition's in their order; `starts` has one more than those."""
    cdef int64_t row, partition, total = 0, size
    memset(starts, 0, (partitions + 1) * 8)
    for row in range(rows):
        if assigned[row] < 0 or assigned[row] >= partitions:
            return False
        starts[assigned[row]] += 1
    for partition in range(partitions + 1):
        size = starts[partition]
        starts[partition] = total
        total += size
    for row in range(rows):
        order[starts[assigned[row]]] = <int32_t>row
        starts[assigned[row]] += 1
    for partition in range(partitions, 0, -1):
        starts[partition] = starts[partition - 1]
    starts[0] = 0
    return True


# ---- batches ----

cdef struct Rows:
    Bytes key
    Bytes value
    Headers headers
    const int64_t* timestamps
    int64_t timestamp_ms
    int64_t max_batch_bytes
    int64_t max_items
    int64_t attributes


cdef struct Open:  # the batch that is being written
    uint8_t* start
    int64_t count
    int64_t items
    int64_t base_timestamp
    int64_t max_timestamp


cdef inline int64_t field_bytes(int64_t size) noexcept nogil:
    return 1 if size < 0 else varint_bytes(size) + size


cdef inline uint8_t* write_field(
    uint8_t* at, const Bytes* column, int64_t row, int64_t size
) noexcept nogil:
    at = write_varint(at, size)
    if size > 0:
        memcpy(at, data_of(column, row), size)
        at += size
    return at


cdef inline int64_t header_range(const Rows* rows, int64_t row, int64_t* first) noexcept nogil:
    """How many headers a record has, and where they begin."""
    cdef int64_t at = rows.headers.first + row
    if rows.headers.offsets == NULL or not is_set(rows.headers.valid, at):
        return 0
    first[0] = rows.headers.offsets[at]
    return rows.headers.offsets[at + 1] - rows.headers.offsets[at]


cdef int64_t headers_bytes(const Rows* rows, int64_t first, int64_t count) noexcept nogil:
    """Bytes of these headers; -1 if one has no key."""
    cdef int64_t item, size, total = 0
    for item in range(first, first + count):
        size = size_of(&rows.headers.key, item)
        if size < 0:
            return -1
        total += varint_bytes(size) + size + field_bytes(size_of(&rows.headers.value, item))
    return total


cdef uint8_t* write_headers(
    uint8_t* at, const Rows* rows, int64_t first, int64_t count
) noexcept nogil:
    cdef int64_t item
    for item in range(first, first + count):
        at = write_field(at, &rows.headers.key, item, size_of(&rows.headers.key, item))
        at = write_field(at, &rows.headers.value, item, size_of(&rows.headers.value, item))
    return at


cdef void close_batch(Open* batch, uint8_t* end, const Rows* rows) noexcept nogil:
    cdef uint8_t* at = batch.start
    put_be(at, 0, 8)
    put_be(at + 8, end - at - LENGTH_OVERHEAD, 4)
    put_be(at + 12, 0xFFFFFFFF, 4)
    at[16] = MAGIC
    put_be(at + 21, rows.attributes, 2)
    put_be(at + 23, batch.count - 1, 4)
    put_be(at + 27, batch.base_timestamp, 8)
    put_be(at + 35, batch.max_timestamp, 8)
    memset(at + 43, 0xFF, 14)  # producer, its epoch and sequence: stamped later
    put_be(at + 57, batch.count, 4)
    put_be(at + 17, crc32c(at + CRC_START, end - at - CRC_START), 4)


cdef inline uint8_t* open_batch(Open* batch, uint8_t* at, int64_t timestamp) noexcept nogil:
    batch.start = at
    batch.count = batch.items = 0
    batch.base_timestamp = batch.max_timestamp = timestamp
    return at + HEADER_SIZE


cdef inline void note(
    int64_t* entry, int64_t partition, uint8_t* out, Open* batch, uint8_t* end
) noexcept nogil:
    entry[0], entry[1], entry[2], entry[3] = partition, batch.start - out, end - out, batch.count


cdef int write_partition(const Rows* rows, const int32_t* order, int64_t* span,
                         int64_t partition, uint8_t* out, uint8_t** at_end,
                         int64_t* entries, int64_t* entry_count) noexcept nogil:
    """The batches of one partition. On trouble `span[0]` is the place of the row."""
    cdef uint8_t* at = at_end[0]
    cdef int64_t place, row, key, value, header_count, first = 0, rest, body, delta = 0, timestamp
    cdef Open batch
    memset(&batch, 0, sizeof(Open))
    for place in range(span[0], span[1]):
        row = place if order == NULL else order[place]
        timestamp = rows.timestamp_ms if rows.timestamps == NULL else rows.timestamps[row]
        key, value = size_of(&rows.key, row), size_of(&rows.value, row)
        header_count = header_range(rows, row, &first)
        rest = 1 + field_bytes(key) + field_bytes(value) + varint_bytes(header_count)
        if header_count:
            body = headers_bytes(rows, first, header_count)
            if body < 0:
                span[0] = place
                return HEADER_WITHOUT_KEY
            rest += body
        if rest > INT32_MAX - HEADER_SIZE - RECORD_OVERHEAD_BYTES:
            span[0] = place
            return RECORD_TOO_LARGE
        if place == span[0]:
            at = open_batch(&batch, at, timestamp)
        elif subtract_overflows(timestamp, batch.base_timestamp, &delta) or is_full(
            rows, &batch, at, rest + varint_bytes(delta) + varint_bytes(batch.count), header_count
        ):
            close_batch(&batch, at, rows)
            note(entries + BATCH_FIELD_COUNT * entry_count[0], partition, out, &batch, at)
            entry_count[0] += 1
            at = open_batch(&batch, at, timestamp)
        delta = timestamp - batch.base_timestamp
        body = rest + varint_bytes(delta) + varint_bytes(batch.count)
        at = write_varint(at, body)
        at[0] = 0
        at = write_varint(at + 1, delta)
        at = write_varint(at, batch.count)
        at = write_field(at, &rows.key, row, key)
        at = write_field(at, &rows.value, row, value)
        at = write_varint(at, header_count)
        if header_count:
            at = write_headers(at, rows, first, header_count)
        batch.count += 1
        batch.items += 1 + header_count
        if timestamp > batch.max_timestamp:
            batch.max_timestamp = timestamp
    close_batch(&batch, at, rows)
    note(entries + BATCH_FIELD_COUNT * entry_count[0], partition, out, &batch, at)
    entry_count[0] += 1
    at_end[0] = at
    return FINE


cdef inline bint is_full(const Rows* rows, const Open* batch, const uint8_t* at, int64_t body,
                         int64_t header_count) noexcept nogil:
    if at - batch.start + varint_bytes(body) + body > rows.max_batch_bytes:
        return True
    return batch.items + 1 + header_count > rows.max_items


def encode(int64_t row_count, *, keys, values, headers, timestamps, assigned, int64_t partitions,
           int64_t timestamp_ms, int64_t attributes, int64_t max_batch_bytes, int64_t max_items):
    cdef Inputs inputs = Inputs()
    cdef Rows rows
    cdef int64_t size = row_count * RECORD_OVERHEAD_BYTES, partition, entry_count = 0
    cdef int64_t[2] span
    cdef int trouble = FINE
    memset(&rows, 0, sizeof(Rows))
    if row_count < 0 or row_count > INT32_MAX or not 0 < partitions <= INT32_MAX or max_items < 1:
        raise ValueError(f"{row_count} rows for {partitions} partitions, {max_items} in a batch")
    if keys is not None:
        size += inputs.bind(keys, row_count, &rows.key)
    if values is not None:
        size += inputs.bind(values, row_count, &rows.value)
    if headers is not None:
        size += inputs.bind_headers(headers, row_count, &rows.headers)
    if timestamps is not None:
        rows.timestamps = <const int64_t*>inputs.pointer(timestamps, 8 * row_count)
    rows.timestamp_ms, rows.attributes = timestamp_ms, attributes
    rows.max_batch_bytes, rows.max_items = max_batch_bytes, max_items
    cdef const int32_t* targets = <const int32_t*>inputs.pointer(assigned, 4 * row_count)
    starts_room = PyByteArray_FromStringAndSize(NULL, 8 * (partitions + 1))
    order_room = PyByteArray_FromStringAndSize(NULL, 4 * row_count)
    cdef int64_t* starts = <int64_t*>PyByteArray_AS_STRING(starts_room)
    cdef int32_t* order = <int32_t*>PyByteArray_AS_STRING(order_room)
    if not sort_rows(targets, row_count, starts, partitions, order):
        raise ValueError(f"a row is assigned to none of {partitions} partitions")
    if starts[1] == row_count:
        order = NULL  # all in partition 0, in their order
    # At most one batch per row. What is not written costs no memory, and is given back.
    out_room = PyByteArray_FromStringAndSize(NULL, size + row_count * HEADER_SIZE)
    entries_room = PyByteArray_FromStringAndSize(NULL, 8 * BATCH_FIELD_COUNT * row_count)
    cdef uint8_t* out = <uint8_t*>PyByteArray_AS_STRING(out_room)
    cdef int64_t* entries = <int64_t*>PyByteArray_AS_STRING(entries_room)
    cdef uint8_t* at = out
    with nogil:
        for partition in range(partitions):
            span[0], span[1] = starts[partition], starts[partition + 1]
            if span[0] == span[1]:
                continue
            trouble = write_partition(
                &rows, order, span, partition, out, &at, entries, &entry_count
            )
            if trouble != FINE:
                break
    if trouble != FINE:
        return None, None, trouble, span[0] if order == NULL else order[span[0]]
    PyByteArray_Resize(out_room, at - out)
    PyByteArray_Resize(entries_room, 8 * BATCH_FIELD_COUNT * entry_count)
    return out_room, entries_room, FINE, -1


def restamp(uint8_t[::1] region not None, const uint8_t[::1] positions not None, *,
            int64_t producer_id, int64_t producer_epoch, int64_t base_sequence, bint transactional):
    cdef int64_t count = positions.shape[0] // 8, index, size, attributes, sequence = base_sequence
    cdef const int64_t* position = <const int64_t*>&positions[0] if count else NULL
    cdef uint8_t* at
    for index in range(count):
        if position[index] < 0 or position[index] > region.shape[0] - HEADER_SIZE:
            raise ValueError(f"no batch at {position[index]}")
        at = &region[position[index]]
        size = get_i32(at + 8) + LENGTH_OVERHEAD
        if size < HEADER_SIZE or size > region.shape[0] - position[index]:
            raise ValueError(f"no batch at {position[index]}")
        attributes = get_i16(at + 21) & ~TRANSACTIONAL_BIT
        put_be(at + 21, attributes | (TRANSACTIONAL_BIT if transactional else 0), 2)
        put_be(at + 43, producer_id, 8)
        put_be(at + 51, producer_epoch, 2)
        put_be(at + 53, sequence, 4)
        put_be(at + 17, crc32c(at + CRC_START, size - CRC_START), 4)
        if sequence >= 0:
            sequence = (sequence + get_i32(at + 23) + 1) & INT32_MAX
    return sequence
