# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""How far batches follow one another. What it promises: `contract.py`."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t

cdef extern from "crc32c.h" nogil:
    void crc32c_prepare "tidelog_crc32c_prepare"()
    uint32_t crc32c "tidelog_crc32c"(const uint8_t* data, size_t size)

cdef extern from "numbers.h" nogil:
    int64_t get_i64 "tidelog_get_i64"(const uint8_t* at)
    int64_t get_i32 "tidelog_get_i32"(const uint8_t* at)
    int64_t get_u32 "tidelog_get_u32"(const uint8_t* at)

crc32c_prepare()

cdef enum:
    HEADER_SIZE = 61
    LENGTH_OVERHEAD = 12
    CRC_START = 21
    MAGIC = 2


def follow(const uint8_t[::1] region not None, int64_t next_offset, int64_t end_offset,
           int64_t leader_epoch):
    cdef const uint8_t* data = &region[0] if region.shape[0] else NULL
    cdef const uint8_t* at
    cdef int64_t left = region.shape[0], position = 0, size, delta
    while left >= HEADER_SIZE:
        at = data + position
        size, delta = get_i32(at + 8) + LENGTH_OVERHEAD, get_i32(at + 23)
        if at[16] != MAGIC or size < HEADER_SIZE or size > left or get_i32(at + 57) < 0:
            break
        if get_i64(at) != next_offset or next_offset < 0 or delta < 0:
            break
        if delta >= end_offset - next_offset or get_i32(at + 12) != leader_epoch:
            break
        if crc32c(at + CRC_START, <size_t>(size - CRC_START)) != get_u32(at + 17):
            break
        next_offset += delta + 1
        position += size
        left -= size
    return position, next_offset
