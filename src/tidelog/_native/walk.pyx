# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Whether records are what their batch says. What it promises: `contract.py`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int64_t, uint8_t

cdef extern from "numbers.h" nogil:
    const uint8_t* read_varint "tidelog_read_varint"(
        const uint8_t* at, const uint8_t* end, int64_t* value
    )
    const uint8_t* read_varlong "tidelog_read_varlong"(
        const uint8_t* at, const uint8_t* end, int64_t* value
    )
    int add_overflows "tidelog_add_overflows"(int64_t a, int64_t b, int64_t* sum)

cdef enum:
    SMALLEST_RECORD_BYTES = 7
    SMALLEST_RECORD_HEADER_BYTES = 2
    NO_TIMESTAMP = -1


cdef struct Found:
    int64_t without_key
    int64_t earliest
    int64_t latest


cdef inline const uint8_t* skip_field(
    const uint8_t* at, const uint8_t* end, int64_t* size
) noexcept nogil:
    """A length, -1 for null, and as many bytes; NULL if they do not fit."""
    at = read_varint(at, end, size)
    if at == NULL or size[0] < -1 or size[0] > end - at:
        return NULL
    return at if size[0] < 0 else at + size[0]


cdef const uint8_t* skip_headers(
    const uint8_t* at, const uint8_t* end, int64_t* items_left
) noexcept nogil:
    cdef int64_t count = 0, size = 0
    at = read_varint(at, end, &count)
    if at == NULL or count < 0 or count > (end - at) // SMALLEST_RECORD_HEADER_BYTES:
        return NULL
    items_left[0] -= count
    if items_left[0] < 0:
        return NULL
    for _ in range(count):
        at = skip_field(at, end, &size)
        if at == NULL or size < 0:
            return NULL
        at = skip_field(at, end, &size)
        if at == NULL:
            return NULL
    return at


cdef bint walk_records(
    const uint8_t* at, const uint8_t* end, int64_t count, int64_t base_timestamp,
    int64_t items_left, Found* found
) noexcept nogil:
    cdef int64_t index, size = 0, delta = 0, timestamp = 0
    cdef const uint8_t* record_end
    if count < 0 or count > (end - at) // SMALLEST_RECORD_BYTES or count > items_left:
        return False
    items_left -= count
    for index in range(count):
        at = read_varint(at, end, &size)
        if at == NULL or size < SMALLEST_RECORD_BYTES - 1 or size > end - at:
            return False
        record_end = at + size
        at = read_varlong(at + 1, record_end, &delta)  # record attributes are unused
        if at == NULL or add_overflows(base_timestamp, delta, &timestamp):
            return False
        at = read_varint(at, record_end, &delta)
        if at == NULL or delta != index:
            return False
        at = skip_field(at, record_end, &size)
        if at == NULL:
            return False
        found.without_key += size < 0
        at = skip_field(at, record_end, &size)
        if at == NULL:
            return False
        if record_end - at == 1 and at[0] == 0:
            at = record_end
        else:
            at = skip_headers(at, record_end, &items_left)
            if at != record_end:
                return False
        if timestamp > found.latest:
            found.latest = timestamp
        if timestamp < found.earliest and timestamp != NO_TIMESTAMP:
            found.earliest = timestamp
    return at == end


def walk(plain, int64_t start, int64_t record_count, int64_t base_timestamp, int64_t max_items):
    cdef Py_buffer view
    cdef Found found
    cdef bint good = False
    found.without_key, found.earliest, found.latest = 0, INT64_MAX, NO_TIMESTAMP
    PyObject_GetBuffer(plain, &view, PyBUF_SIMPLE)
    try:
        if 0 <= start <= view.len:
            with nogil:
                good = walk_records(
                    <const uint8_t*>view.buf + start, <const uint8_t*>view.buf + view.len,
                    record_count, base_timestamp, max_items, &found,
                )
    finally:
        PyBuffer_Release(&view)
    return (found.without_key, found.earliest, found.latest) if good else None
