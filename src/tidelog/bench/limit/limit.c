/* What no broker on this machine can beat: the bytes of a benchmark, moved through the same
 * processes by the fewest system calls.
 *
 *     client -> leader -> two followers     loopback TCP, every server writes a file of its own
 *
 * There are no headers and no records: every request is `request-bytes` long, and an answer is
 * eight bytes. The leader answers when both followers have said how far they are. Positions in
 * the log are counted in bytes.
 *
 *     limit produce  --directory D [options]    requests/s and bytes/s until the last answer
 *     limit latency  --directory D [options]    at a rate, from the sender to a reader
 *     limit consume  --directory D [options]    file -> socket -> a client that drops it
 *
 * It prints one line of JSON. Which means are the cheapest was measured; see `enum means`.
 */
#include "limit.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

/* ---- the client ---- */

/* The first eight bytes are the number of the request, the rest is the same in all of them. */
static char *new_request(const struct plan *plan) {
    char *request = new_buffer(plan->request_bytes);
    for (uint64_t place = 0; place < plan->request_bytes; place++) {
        request[place] = (char)(place * 31 + 7);
    }
    return request;
}

static void send_request(const struct plan *plan, int socket, char *request, uint64_t number) {
    memcpy(request, &number, sizeof number);
    send_all(socket, request, plan->request_bytes);
}

static void produce_on_one(const struct plan *plan, int leader, char *request) {
    char answers[64 * ANSWER_BYTES];
    uint64_t sent = 0, answered_bytes = 0;
    while (answered_bytes < plan->requests * ANSWER_BYTES) {
        while (sent < plan->requests && sent - answered_bytes / ANSWER_BYTES < plan->in_flight) {
            send_request(plan, leader, request, sent++);
        }
        ssize_t count = receive_some(leader, answers, sizeof answers, 0);
        if (count == 0) fail("the leader is gone");
        answered_bytes += count;
    }
}

static void produce_on_many(const struct plan *plan, const struct cluster *cluster, char *request) {
    uint64_t sent = 0, answered = 0, answers[64];
    int epoll = checked(epoll_create1(0), "epoll_create1");
    for (uint64_t each = 0; each < plan->connections; each++) {
        watch(epoll, cluster->clients[each], each);
        for (uint64_t place = 0; place < plan->in_flight && sent < plan->requests; place++) {
            send_request(plan, cluster->clients[each], request, sent++);
        }
    }
    struct epoll_event events[CONNECTIONS_MAX];
    while (answered < plan->requests) {
        int ready = checked(epoll_wait(epoll, events, plan->connections, -1), "epoll_wait");
        for (int each = 0; each < ready; each++) {
            int leader = cluster->clients[events[each].data.u32];
            ssize_t count = receive_some(leader, answers, sizeof answers, 0);
            if (count == 0) fail("the leader is gone");
            if (count % ANSWER_BYTES) fail("a part of an answer came alone");
            for (ssize_t place = 0; place < count / (ssize_t)ANSWER_BYTES; place++) {
                answered++;
                if (sent < plan->requests) send_request(plan, leader, request, sent++);
            }
        }
    }
}

static void produce(const struct plan *plan) {
    struct cluster cluster;
    char *request = new_request(plan);
    start(plan, &cluster, false);
    double begin = now_seconds();
    if (plan->connections == 1) produce_on_one(plan, cluster.clients[0], request);
    else produce_on_many(plan, &cluster, request);
    double seconds = now_seconds() - begin, cpu_seconds = end(plan, &cluster);
    double bytes = (double)plan->requests * plan->request_bytes;
    printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"bytes_per_second\": %.0f, "
           "\"requests_per_second\": %.1f}\n",
           seconds, cpu_seconds, bytes / seconds, plan->requests / seconds);
}

/* ---- latency at a rate ---- */

static void read_and_stamp(const struct plan *plan, int leader, double *taken_at) {
    char buffer[1 << 16];
    uint64_t bytes = 0, all = plan->requests * plan->request_bytes;
    while (bytes < all) {
        ssize_t count = receive_some(leader, buffer, sizeof buffer, 0);
        if (count == 0) fail("the leader is gone");
        double now = now_seconds();
        uint64_t before = bytes / plan->request_bytes;
        bytes += count;
        for (uint64_t each = before; each < bytes / plan->request_bytes; each++) {
            taken_at[each] = now;
        }
    }
}

/* A record counts from the moment at which it was due: whoever holds the sender up is not to look
 * better for it. */
static void send_at_rate(const struct plan *plan, int leader, char *request, double *due_at) {
    char answers[64 * ANSWER_BYTES];
    uint64_t answered_bytes = 0;
    prctl(PR_SET_TIMERSLACK, 1); /* by default a sleep may last 50 microseconds longer */
    double begin = now_seconds();
    for (uint64_t each = 0; each < plan->requests; each++) {
        double due = due_at[each] = begin + (double)each / plan->rate;
        struct timespec until = {(time_t)due, (long)((due - (time_t)due) * 1e9)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        send_request(plan, leader, request, each);
        ssize_t count = receive_now(leader, answers, sizeof answers);
        if (count > 0) answered_bytes += count;
    }
    while (answered_bytes < plan->requests * ANSWER_BYTES) {
        ssize_t count = receive_some(leader, answers, sizeof answers, 0);
        if (count == 0) fail("the leader is gone");
        answered_bytes += count;
    }
}

static int compare_doubles(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void latency(struct plan *plan) {
    struct cluster cluster;
    char *request = new_request(plan);
    uint64_t count = plan->requests; /* the sender waits for nobody: all may be in flight */
    double *moments = mmap(NULL, 2 * count * sizeof *moments, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (moments == MAP_FAILED) checked(-1, "mmap");
    double *due_at = moments, *taken_at = moments + count;
    plan->in_flight = count;
    start(plan, &cluster, true);
    pid_t reader = spawn();
    if (reader == 0) {
        read_and_stamp(plan, cluster.reader, taken_at);
        exit(0);
    }
    send_at_rate(plan, cluster.clients[0], request, due_at);
    int status;
    if (waitpid(reader, &status, 0) < 0 || status != 0) fail("the reader failed");
    end(plan, &cluster);
    for (uint64_t each = 0; each < count; each++) taken_at[each] -= due_at[each];
    uint64_t warm_up = count / 10;
    taken_at += warm_up;
    count -= warm_up;
    qsort(taken_at, count, sizeof *taken_at, compare_doubles);
    printf("{\"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f}\n", taken_at[count / 2] * 1e3,
           taken_at[count * 99 / 100] * 1e3, taken_at[count * 999 / 1000] * 1e3);
}

/* ---- consume ---- */

static void serve_file(const struct plan *plan, int client, int file, uint64_t size) {
    if (plan->means == SPLICE) { /* sendfile is a splice through a pipe of its own */
        for (off_t from = 0; (uint64_t)from < size;) {
            checked(sendfile(client, file, &from, size - from), "sendfile");
        }
        return;
    }
    char *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) checked(-1, "mmap");
    madvise(bytes, size, MADV_SEQUENTIAL);
    for (uint64_t from = 0; from < size; from += plan->request_bytes) {
        uint64_t left = size - from;
        send_all(client, bytes + from, left < plan->request_bytes ? left : plan->request_bytes);
    }
}

/* A client needs the bytes in its memory: they are copied there, not dropped in the kernel. */
static uint64_t read_and_drop(const struct plan *plan, int server) {
    char *buffer = new_buffer(plan->buffer_bytes);
    uint64_t bytes = 0;
    ssize_t count;
    while ((count = receive_some(server, buffer, plan->buffer_bytes, 0)) > 0) bytes += count;
    return bytes;
}

static void consume(const struct plan *plan) {
    char *request = new_request(plan);
    uint64_t size = plan->requests * plan->request_bytes;
    int file = create_file(plan, "leader.log");
    for (uint64_t each = 0; each < plan->requests; each++) {
        memcpy(request, &each, sizeof each);
        write_all(file, request, plan->request_bytes);
    }
    if (plan->cold) { /* only clean pages can be dropped */
        checked(fsync(file), "fsync");
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    }
    int ends[2];
    connect_pair(ends);
    double begin = now_seconds();
    if (spawn() == 0) {
        close(ends[0]);
        posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
        serve_file(plan, ends[1], file, size);
        exit(0);
    }
    close(ends[1]);
    uint64_t taken = read_and_drop(plan, ends[0]);
    double seconds = now_seconds() - begin;
    double cpu_seconds = wait_for_servers();
    if (taken != size) fail("%zu of %zu bytes arrived", (size_t)taken, (size_t)size);
    printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"bytes_per_second\": %.0f}\n", seconds,
           cpu_seconds, taken / seconds);
}

/* ---- the command line ---- */

static uint64_t number_of(const char *name, const char *text, uint64_t most) {
    char *rest;
    errno = 0;
    unsigned long long value = strtoull(text, &rest, 10);
    if (errno || *rest || rest == text || value < 1 || value > most) {
        fail("--%s %s: a number from 1 to %llu", name, text, (unsigned long long)most);
    }
    return value;
}

static struct plan parse(int count, char **words) {
    struct plan plan = {.request_bytes = 16384, .requests = 1000, .in_flight = 5, .connections = 1,
                        .acks = 3, .rate = 1000, .buffer_bytes = 262144};
    struct number {
        const char *name;
        uint64_t *value, most;
    } numbers[] = {
        {"request-bytes", &plan.request_bytes, 1ull << 30},
        {"requests", &plan.requests, 1ull << 40},
        {"in-flight", &plan.in_flight, 1 << 20},
        {"connections", &plan.connections, CONNECTIONS_MAX},
        {"acks", &plan.acks, 1 + FOLLOWERS},
        {"rate", &plan.rate, 1000000},
        {"buffer-bytes", &plan.buffer_bytes, 1ull << 30},
    };
    enum { NUMBERS = sizeof numbers / sizeof *numbers, DIRECTORY, MEANS, FSYNC, COLD };
    struct option options[NUMBERS + 5] = {{0}};
    for (int each = 0; each < NUMBERS; each++) {
        options[each] = (struct option){numbers[each].name, required_argument, NULL, each};
    }
    options[NUMBERS] = (struct option){"directory", required_argument, NULL, DIRECTORY};
    options[NUMBERS + 1] = (struct option){"means", required_argument, NULL, MEANS};
    options[NUMBERS + 2] = (struct option){"fsync", no_argument, NULL, FSYNC};
    options[NUMBERS + 3] = (struct option){"cold", no_argument, NULL, COLD};
    for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;) {
        if (option == '?') exit(2);
        if (option < NUMBERS) {
            *numbers[option].value = number_of(numbers[option].name, optarg, numbers[option].most);
        } else if (option == DIRECTORY) plan.directory = optarg;
        else if (option == FSYNC) plan.fsync = true;
        else if (option == COLD) plan.cold = true;
        else if (!strcmp(optarg, "splice")) plan.means = SPLICE;
        else if (strcmp(optarg, "copy")) fail("--means %s: copy or splice", optarg);
    }
    return plan;
}

int main(int count, char **words) {
    if (count < 2) fail("produce, latency or consume?");
    struct plan plan = parse(count - 1, words + 1);
    if (!plan.directory) fail("--directory is missing");
    if (plan.request_bytes < sizeof(uint64_t)) fail("--request-bytes: a number takes 8");
    if (plan.connections > 1 && plan.means == SPLICE) fail("--means splice: one connection only");
    if (plan.buffer_bytes < plan.request_bytes && plan.connections > 1) {
        fail("--buffer-bytes: whole requests of many connections must fit");
    }
    if (!strcmp(words[1], "produce")) produce(&plan);
    else if (!strcmp(words[1], "latency")) latency(&plan);
    else if (!strcmp(words[1], "consume")) consume(&plan);
    else fail("%s: produce, latency or consume?", words[1]);
    return 0;
}
