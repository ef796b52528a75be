/* MurmurHash2 of 32 bits with Kafka's seed; the Python twin is `tidelog.wire.murmur2`. */

#ifndef TIDELOG_MURMUR2_H
#define TIDELOG_MURMUR2_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t tidelog_murmur2(const uint8_t *data, size_t size) {
    const uint32_t mix = 0x5BD1E995u;
    uint32_t value = 0x9747B28Cu ^ (uint32_t)size, rest = 0;
    for (; size >= 4; data += 4, size -= 4) {
        uint32_t block = data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                         (uint32_t)data[3] << 24;
        block *= mix;
        value = value * mix ^ (block ^ block >> 24) * mix;
    }
    for (size_t i = 0; i < size; i++) rest |= (uint32_t)data[i] << (8 * i);
    if (size > 0) value = (value ^ rest) * mix;
    value = (value ^ value >> 13) * mix;
    return value ^ value >> 15;
}

#endif
