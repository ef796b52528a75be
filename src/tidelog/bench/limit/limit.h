/* What the files of the limit program share. */
#ifndef LIMIT_H
#define LIMIT_H
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define FOLLOWERS 2
#define CONNECTIONS_MAX 256
#define ANSWER_BYTES sizeof(uint64_t)

/* COPY: recv into one buffer that stays in the processor's cache, write, send.
 * SPLICE: pages are handed from socket to pipe to file and, by tee, to the followers' sockets; for
 * consuming it is sendfile, against mmap and send.
 * Measured, processor time of the servers, alternating: splice takes 10 to 15 % less than copy for
 * requests of 16 KiB to 1 MiB (most of what is left are new pages of three files), sendfile a third
 * of mmap and send. Of the buffers for COPY 256 KiB serve best: 64 KiB cost a quarter more at large
 * requests, 1 MiB gains nothing. */
enum means { COPY, SPLICE };

struct plan {
    const char *directory;
    uint64_t request_bytes, requests, in_flight, connections, acks, rate, buffer_bytes;
    enum means means;
    bool fsync, cold;
};

/* moving.c */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
ssize_t checked(ssize_t result, const char *call);
double now_seconds(void);
pid_t spawn(void);
double wait_for_servers(void);
void connect_pair(int ends[2]);
int create_file(const struct plan *plan, const char *name);
char *new_buffer(uint64_t size);
void send_all(int socket, const void *bytes, uint64_t size);
void write_all(int file, const char *bytes, uint64_t size);
ssize_t receive_now(int socket, void *bytes, uint64_t size);
ssize_t receive_some(int socket, void *bytes, uint64_t size, int flags);
void watch(int epoll, int socket, uint32_t name);

/* servers.c */
struct cluster {
    int clients[CONNECTIONS_MAX]; /* the clients' ends */
    int reader;                   /* the end of who reads what is committed, or -1 */
};

void start(const struct plan *plan, struct cluster *cluster, bool with_reader);
double end(const struct plan *plan, struct cluster *cluster);

#endif
