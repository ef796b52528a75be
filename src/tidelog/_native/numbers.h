/* Numbers as Kafka writes them: big-endian fields, zigzag varints; and what counts as UTF-8.

   A reader gets the end of what it may read and answers NULL when the number does not end before
   it, or does not fit its width. A writer is given room for the longest form.

   Every name here has our prefix. CPython's headers, which Cython includes, have a `write_varint`
   of their own from 3.12 on, and another release may bring any other plain name. */

#ifndef TIDELOG_NUMBERS_H
#define TIDELOG_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t tidelog_get_be(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
    return value;
}

static inline int64_t tidelog_get_i64(const uint8_t *at) { return (int64_t)tidelog_get_be(at, 8); }
static inline int64_t tidelog_get_i32(const uint8_t *at) { return (int32_t)tidelog_get_be(at, 4); }
static inline int64_t tidelog_get_u32(const uint8_t *at) { return (int64_t)tidelog_get_be(at, 4); }
static inline int64_t tidelog_get_i16(const uint8_t *at) { return (int16_t)tidelog_get_be(at, 2); }

static inline void tidelog_put_be(uint8_t *at, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
}

static inline int64_t tidelog_unzigzag(uint64_t value) {
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static inline uint64_t tidelog_zigzag(int64_t value) {
    return (uint64_t)value << 1 ^ (value < 0 ? ~(uint64_t)0 : 0);
}

static const uint8_t *tidelog_read_long_form(const uint8_t *at, const uint8_t *end, int bits,
                                             int64_t *value) {
    uint64_t raw = 0;
    for (int shift = 0; shift < bits; shift += 7) {
        if (at >= end) return NULL;
        uint8_t byte = *at++;
        int room = bits - shift;
        if (room < 7 && (byte & 0x7F) >> room) return NULL;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = tidelog_unzigzag(raw);
            return at;
        }
    }
    return NULL;
}

/* Most numbers have one byte, most lengths one or two. */
static inline const uint8_t *tidelog_read_varint(const uint8_t *at, const uint8_t *end,
                                                 int64_t *value) {
    if (end - at >= 2) {
        uint32_t first = at[0], second = at[1];
        if (first < 0x80) {
            *value = tidelog_unzigzag(first);
            return at + 1;
        }
        if (second < 0x80) {
            *value = tidelog_unzigzag((first & 0x7F) | second << 7);
            return at + 2;
        }
    }
    return tidelog_read_long_form(at, end, 32, value);
}

static inline const uint8_t *tidelog_read_varlong(const uint8_t *at, const uint8_t *end,
                                                  int64_t *value) {
    if (at < end && *at < 0x80) {
        *value = tidelog_unzigzag(*at);
        return at + 1;
    }
    return tidelog_read_long_form(at, end, 64, value);
}

static inline int tidelog_varint_bytes(int64_t value) {
    uint64_t raw = tidelog_zigzag(value) | 1;
    return (63 - __builtin_clzll(raw)) / 7 + 1;
}

static inline uint8_t *tidelog_write_varint(uint8_t *at, int64_t value) {
    uint64_t raw = tidelog_zigzag(value);
    while (raw > 0x7F) {
        *at++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *at++ = (uint8_t)raw;
    return at;
}

/* A hint; reads nothing, so that it may point anywhere. */
static inline void tidelog_prefetch(const uint8_t *at) { __builtin_prefetch(at); }

static inline int tidelog_add_overflows(int64_t a, int64_t b, int64_t *sum) {
    return __builtin_add_overflow(a, b, sum);
}

static inline int tidelog_subtract_overflows(int64_t a, int64_t b, int64_t *difference) {
    return __builtin_sub_overflow(a, b, difference);
}

/* Milliseconds to microseconds; what is beyond the end of time stays at its end. */
static inline int64_t tidelog_to_microseconds(int64_t ms) {
    int64_t us;
    if (__builtin_mul_overflow(ms, (int64_t)1000, &us)) return ms < 0 ? INT64_MIN : INT64_MAX;
    return us;
}

/* How many bytes at `at` belong together: a character, or, less than zero, what is left of a
   broken one. Broken pieces are cut as Unicode advises and as Python and Java do. */
static inline int tidelog_utf8_step(const uint8_t *at, const uint8_t *end) {
    uint8_t lead = *at;
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return -1;
    int size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    uint8_t low = 0x80, high = 0xBF; /* of the second byte: no long forms, no surrogates */
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    for (int i = 1; i < size; i++, low = 0x80, high = 0xBF)
        if (at + i >= end || at[i] < low || at[i] > high) return -i;
    return size;
}

/* Copies text and puts U+FFFD where it is not UTF-8: up to three times the bytes. */
static uint8_t *tidelog_copy_text(uint8_t *to, const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        int step = tidelog_utf8_step(at, end);
        if (step > 0) {
            memcpy(to, at, (size_t)step);
            to += step;
            at += step;
        } else {
            memcpy(to, "\xEF\xBF\xBD", 3);
            to += 3;
            at -= step;
        }
    }
    return to;
}

#endif
