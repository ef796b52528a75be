/* CRC-32C of a run of bytes: the processor's own instruction where it has one.

   The instruction takes three cycles and a new one may start in every cycle, so three neighbouring
   lanes are summed at once. A lane's sum is moved behind the next lane with a table: moving a sum
   over a fixed number of zero bytes is linear in its bits. */

#ifndef TIDELOG_CRC32C_H
#define TIDELOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define TIDELOG_CRC32C_INSTRUCTION 1
#else
#define TIDELOG_CRC32C_INSTRUCTION 0
#endif

#define TIDELOG_CRC32C_POLYNOMIAL 0x82F63B78u
#define TIDELOG_CRC32C_LANE_BYTES 512

static uint32_t tidelog_crc32c_bytes[8][256]; /* [n][b]: byte b followed by n zero bytes */
static uint32_t tidelog_crc32c_lane[4][256];  /* byte n of a sum, moved over one lane */
static int tidelog_crc32c_has_instruction;

static uint32_t tidelog_crc32c_over_zeros(uint32_t sum, size_t count) {
    while (count--) sum = tidelog_crc32c_bytes[0][sum & 0xFF] ^ (sum >> 8);
    return sum;
}

static void tidelog_crc32c_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = (sum >> 1) ^ (sum & 1 ? TIDELOG_CRC32C_POLYNOMIAL : 0);
        tidelog_crc32c_bytes[0][byte] = sum;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (uint32_t byte = 0; byte < 256; byte++)
            tidelog_crc32c_bytes[zeros][byte] =
                tidelog_crc32c_over_zeros(tidelog_crc32c_bytes[zeros - 1][byte], 1);
    for (int place = 0; place < 4; place++) {
        uint32_t bits[8];
        for (int bit = 0; bit < 8; bit++)
            bits[bit] =
                tidelog_crc32c_over_zeros(1u << (8 * place + bit), TIDELOG_CRC32C_LANE_BYTES);
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t sum = 0;
            for (int bit = 0; bit < 8; bit++)
                if (byte >> bit & 1) sum ^= bits[bit];
            tidelog_crc32c_lane[place][byte] = sum;
        }
    }
#if TIDELOG_CRC32C_INSTRUCTION
    __builtin_cpu_init();
    tidelog_crc32c_has_instruction = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

static uint32_t tidelog_crc32c_by_table(const uint8_t *data, size_t size) {
    uint32_t sum = 0xFFFFFFFFu;
    for (; size >= 8; data += 8, size -= 8)
        sum = tidelog_crc32c_bytes[7][data[0] ^ (sum & 0xFF)] ^
              tidelog_crc32c_bytes[6][data[1] ^ (sum >> 8 & 0xFF)] ^
              tidelog_crc32c_bytes[5][data[2] ^ (sum >> 16 & 0xFF)] ^
              tidelog_crc32c_bytes[4][data[3] ^ (sum >> 24)] ^ tidelog_crc32c_bytes[3][data[4]] ^
              tidelog_crc32c_bytes[2][data[5]] ^ tidelog_crc32c_bytes[1][data[6]] ^
              tidelog_crc32c_bytes[0][data[7]];
    for (; size > 0; data++, size--)
        sum = tidelog_crc32c_bytes[0][(sum ^ *data) & 0xFF] ^ (sum >> 8);
    return ~sum;
}

#if TIDELOG_CRC32C_INSTRUCTION
static inline uint64_t tidelog_crc32c_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

static inline uint64_t tidelog_crc32c_over_lane(uint64_t sum) {
    return tidelog_crc32c_lane[0][sum & 0xFF] ^ tidelog_crc32c_lane[1][sum >> 8 & 0xFF] ^
           tidelog_crc32c_lane[2][sum >> 16 & 0xFF] ^ tidelog_crc32c_lane[3][sum >> 24 & 0xFF];
}

__attribute__((target("sse4.2"))) static uint32_t
tidelog_crc32c_by_instruction(const uint8_t *data, size_t size) {
    uint64_t sum = 0xFFFFFFFFu;
    while (size >= 3 * TIDELOG_CRC32C_LANE_BYTES) {
        const uint8_t *second = data + TIDELOG_CRC32C_LANE_BYTES;
        const uint8_t *third = second + TIDELOG_CRC32C_LANE_BYTES;
        uint64_t sum2 = 0, sum3 = 0;
        for (size_t at = 0; at < TIDELOG_CRC32C_LANE_BYTES; at += 8) {
            sum = __builtin_ia32_crc32di(sum, tidelog_crc32c_word(data + at));
            sum2 = __builtin_ia32_crc32di(sum2, tidelog_crc32c_word(second + at));
            sum3 = __builtin_ia32_crc32di(sum3, tidelog_crc32c_word(third + at));
        }
        sum = tidelog_crc32c_over_lane(tidelog_crc32c_over_lane(sum) ^ sum2) ^ sum3;
        data += 3 * TIDELOG_CRC32C_LANE_BYTES;
        size -= 3 * TIDELOG_CRC32C_LANE_BYTES;
    }
    for (; size >= 8; data += 8, size -= 8)
        sum = __builtin_ia32_crc32di(sum, tidelog_crc32c_word(data));
    for (; size > 0; data++, size--) sum = __builtin_ia32_crc32qi((uint32_t)sum, *data);
    return ~(uint32_t)sum;
}
#endif

static inline uint32_t tidelog_crc32c(const uint8_t *data, size_t size) {
#if TIDELOG_CRC32C_INSTRUCTION
    if (tidelog_crc32c_has_instruction) return tidelog_crc32c_by_instruction(data, size);
#endif
    return tidelog_crc32c_by_table(data, size);
}

#endif
