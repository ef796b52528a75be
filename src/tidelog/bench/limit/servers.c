/* The leader and its followers. */
#include "limit.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#define PIPE_BYTES (1 << 20)

/* Moves what a pipe holds, all of it. */
static void drain_pipe(int pipe, int target, uint64_t size) {
    while (size > 0) {
        ssize_t count = splice(pipe, NULL, target, NULL, size, SPLICE_F_MOVE);
        if (count == 0) fail("splice moved nothing");
        size -= checked(count, "splice");
    }
}

static void new_pipe(int ends[2]) {
    checked(pipe(ends), "pipe");
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* smaller ones serve too, only slower */
}

/* ---- a follower: what arrives goes to its file, and its position to the leader ---- */

struct follower {
    const struct plan *plan;
    int leader, file, pipe[2];
    char *buffer;
};

static uint64_t follow_once(const struct follower *self) {
    ssize_t count;
    if (self->plan->means == SPLICE) {
        count = splice(self->leader, NULL, self->pipe[1], NULL, PIPE_BYTES, SPLICE_F_MOVE);
        drain_pipe(self->pipe[0], self->file, checked(count, "splice"));
    } else {
        count = receive_some(self->leader, self->buffer, self->plan->buffer_bytes, 0);
        write_all(self->file, self->buffer, count);
    }
    return count;
}

static bool has_more(int socket) {
    struct pollfd asked = {.fd = socket, .events = POLLIN};
    return checked(poll(&asked, 1, 0), "poll") > 0;
}

static void follow(const struct plan *plan, int leader, int file) {
    struct follower self = {.plan = plan, .leader = leader, .file = file};
    self.buffer = new_buffer(plan->buffer_bytes);
    new_pipe(self.pipe);
    uint64_t position = 0, count;
    while ((count = follow_once(&self)) > 0) {
        position += count;
        if (plan->fsync) { /* everything that is there belongs to one group */
            while (has_more(leader) && (count = follow_once(&self)) > 0) position += count;
            checked(fdatasync(file), "fdatasync");
        }
        send_all(leader, &position, sizeof position);
    }
}

/* ---- the leader ---- */

struct waiting { /* a request that is in the log and not answered */
    uint64_t end;
    int connection;
};

struct leader {
    const struct plan *plan;
    int file, reader; /* reader: who gets what is committed, or -1 */
    int clients[CONNECTIONS_MAX], followers[FOLLOWERS];
    int client_pipe[2], follower_pipes[FOLLOWERS][2];
    uint64_t open_clients;
    uint64_t end, delivered; /* positions: of the log, of what the reader got */
    uint64_t follower_ends[FOLLOWERS], follower_partial[FOLLOWERS];
    struct waiting *waiting; /* a ring: the log has an order, so answers have it too */
    uint64_t waiting_first, waiting_end, waiting_room;
    char *buffer;
};

static void note_requests(struct leader *leader, int connection, uint64_t from, uint64_t count) {
    uint64_t size = leader->plan->request_bytes;
    for (uint64_t end = from / size * size + size; end <= from + count; end += size) {
        uint64_t place = leader->waiting_end++ % leader->waiting_room;
        leader->waiting[place] = (struct waiting){end, connection};
    }
}

/* The followers first: they work while we write. */
static void append_copied(struct leader *leader, uint64_t size) {
    for (int each = 0; each < FOLLOWERS; each++) {
        send_all(leader->followers[each], leader->buffer, size);
    }
    write_all(leader->file, leader->buffer, size);
    leader->end += size;
}

/* Requests of many connections become one append: whole ones, or the log would mix them. */
static uint64_t take_copied(struct leader *leader, int connection, uint64_t filled) {
    uint64_t size = leader->plan->request_bytes, room = leader->plan->buffer_bytes - filled;
    bool whole = leader->plan->connections > 1;
    if (whole) room = room / size * size;
    if (room == 0) return filled; /* it is still readable the next time */
    int client = leader->clients[connection];
    ssize_t count = receive_now(client, leader->buffer + filled, room);
    if (count == 0) {
        leader->open_clients--;
        close(client);
    }
    if (count <= 0) return filled;
    if (whole && count % size) {
        uint64_t missing = size - count % size;
        count += receive_some(client, leader->buffer + filled + count, missing, MSG_WAITALL);
    }
    note_requests(leader, connection, leader->end + filled, count);
    return filled + count;
}

static void take_spliced(struct leader *leader) {
    int client = leader->clients[0];
    ssize_t count = splice(client, NULL, leader->client_pipe[1], NULL, PIPE_BYTES, SPLICE_F_MOVE);
    if (checked(count, "splice") == 0) {
        leader->open_clients--;
        close(client);
        return;
    }
    for (int each = 0; each < FOLLOWERS; each++) {
        int *pipe = leader->follower_pipes[each];
        ssize_t copied = tee(leader->client_pipe[0], pipe[1], count, 0);
        if (checked(copied, "tee") != count) fail("tee took %zd of %zd bytes", copied, count);
        drain_pipe(pipe[0], leader->followers[each], count);
    }
    drain_pipe(leader->client_pipe[0], leader->file, count);
    note_requests(leader, 0, leader->end, count);
    leader->end += count;
}

/* Positions only grow, so the last whole one counts; a part of one waits for its rest. */
static void take_position(struct leader *leader, int follower) {
    static uint64_t positions[FOLLOWERS][512];
    char *bytes = (char *)positions[follower];
    uint64_t partial = leader->follower_partial[follower];
    ssize_t count = receive_now(leader->followers[follower], bytes + partial,
                                sizeof positions[follower] - partial);
    if (count == 0) fail("follower %d is gone", follower + 1);
    if (count < 0) return;
    uint64_t held = partial + count, whole = held / ANSWER_BYTES;
    if (whole > 0) leader->follower_ends[follower] = positions[follower][whole - 1];
    leader->follower_partial[follower] = held % ANSWER_BYTES;
    memmove(bytes, bytes + whole * ANSWER_BYTES, held % ANSWER_BYTES);
}

static void answer(struct leader *leader) {
    uint64_t committed = leader->end;
    for (int each = 0; each < FOLLOWERS && leader->plan->acks > 1; each++) {
        if (leader->follower_ends[each] < committed) committed = leader->follower_ends[each];
    }
    while (leader->waiting_first < leader->waiting_end) {
        uint64_t answers[64], count = 0;
        struct waiting *first = &leader->waiting[leader->waiting_first % leader->waiting_room];
        struct waiting *next = first;
        while (count < 64 && leader->waiting_first < leader->waiting_end &&
               next->end <= committed && next->connection == first->connection) {
            answers[count++] = next->end;
            next = &leader->waiting[++leader->waiting_first % leader->waiting_room];
        }
        if (count == 0) break;
        send_all(leader->clients[first->connection], answers, count * ANSWER_BYTES);
    }
    while (leader->reader >= 0 && leader->delivered < committed) {
        off_t from = leader->delivered;
        uint64_t size = committed - leader->delivered;
        ssize_t count = sendfile(leader->reader, leader->file, &from, size);
        leader->delivered += checked(count, "sendfile");
    }
}

static bool is_replicated(const struct leader *leader) {
    for (int each = 0; each < FOLLOWERS; each++) {
        if (leader->follower_ends[each] < leader->end) return false;
    }
    return true;
}

/* Several requests are under way: whatever is readable is moved on. */
static void lead(struct leader *leader) {
    int epoll = checked(epoll_create1(0), "epoll_create1");
    int connections = leader->plan->connections;
    for (int each = 0; each < connections; each++) watch(epoll, leader->clients[each], each);
    for (int each = 0; each < FOLLOWERS; each++) {
        watch(epoll, leader->followers[each], connections + each);
    }
    struct epoll_event events[CONNECTIONS_MAX + FOLLOWERS];
    while (leader->open_clients > 0 || !is_replicated(leader)) {
        int ready = epoll_wait(epoll, events, connections + FOLLOWERS, -1);
        uint64_t filled = 0, before = leader->end;
        for (int each = 0; each < checked(ready, "epoll_wait"); each++) {
            int name = events[each].data.u32;
            if (name >= connections) {
                take_position(leader, name - connections);
            } else if (leader->plan->means == SPLICE) {
                take_spliced(leader);
            } else {
                filled = take_copied(leader, name, filled);
            }
        }
        if (filled > 0) append_copied(leader, filled);
        if (leader->plan->fsync && leader->end > before) {
            checked(fdatasync(leader->file), "fdatasync");
        }
        answer(leader);
    }
}

/* One request is under way at any time: nothing has to be asked before it is read, which is one
 * system call less for each message. A small request takes 24 microseconds of the servers'
 * processors, 27 with epoll: medians of 15 runs each in turn, while the machine had other work.
 * The ranges overlap (21 to 46 and 22 to 69): all they show is that blocking is no worse. */
static void lead_one_by_one(struct leader *leader) {
    const struct plan *plan = leader->plan;
    uint64_t size = plan->request_bytes, position;
    while (receive_some(leader->clients[0], leader->buffer, size, MSG_WAITALL) > 0) {
        append_copied(leader, size);
        if (plan->fsync) checked(fdatasync(leader->file), "fdatasync");
        for (int each = 0; each < FOLLOWERS; each++) {
            do {
                int follower = leader->followers[each];
                if (!receive_some(follower, &position, sizeof position, MSG_WAITALL)) {
                    fail("follower %d is gone", each + 1);
                }
            } while (position < leader->end);
        }
        send_all(leader->clients[0], &position, sizeof position);
    }
}

static void run_leader(struct leader *leader) {
    const struct plan *plan = leader->plan;
    leader->buffer = new_buffer(plan->buffer_bytes);
    leader->open_clients = plan->connections;
    leader->waiting_room = plan->connections * plan->in_flight + 1;
    leader->waiting = calloc(leader->waiting_room, sizeof *leader->waiting);
    new_pipe(leader->client_pipe);
    for (int each = 0; each < FOLLOWERS; each++) new_pipe(leader->follower_pipes[each]);
    bool one_by_one = plan->connections * plan->in_flight == 1 && plan->means == COPY &&
                      plan->acks > 1 && leader->reader < 0 &&
                      plan->request_bytes <= plan->buffer_bytes;
    if (one_by_one) lead_one_by_one(leader);
    else lead(leader);
}

/* ---- the topology ---- */

static void start_follower(const struct plan *plan, struct leader *leader, int number) {
    char name[32];
    int ends[2];
    connect_pair(ends);
    snprintf(name, sizeof name, "follower-%d.log", number + 1);
    int file = create_file(plan, name);
    pid_t child = spawn();
    if (child == 0) {
        close(ends[0]);
        for (int each = 0; each < number; each++) close(leader->followers[each]);
        follow(plan, ends[1], file);
        exit(0);
    }
    close(file);
    close(ends[1]);
    leader->followers[number] = ends[0];
}

void start(const struct plan *plan, struct cluster *cluster, bool with_reader) {
    struct leader leader = {.plan = plan, .reader = -1};
    for (int each = 0; each < FOLLOWERS; each++) start_follower(plan, &leader, each);
    leader.file = create_file(plan, "leader.log");
    cluster->reader = -1;
    for (uint64_t each = 0; each < plan->connections; each++) {
        int ends[2];
        connect_pair(ends);
        cluster->clients[each] = ends[0];
        leader.clients[each] = ends[1];
    }
    if (with_reader) {
        int ends[2];
        connect_pair(ends);
        cluster->reader = ends[0];
        leader.reader = ends[1];
    }
    if (spawn() == 0) {
        for (uint64_t each = 0; each < plan->connections; each++) close(cluster->clients[each]);
        if (with_reader) close(cluster->reader);
        run_leader(&leader);
        exit(0);
    }
    close(leader.file);
    if (with_reader) close(leader.reader);
    for (uint64_t each = 0; each < plan->connections; each++) close(leader.clients[each]);
    for (int each = 0; each < FOLLOWERS; each++) close(leader.followers[each]);
}

/* Processor seconds of all servers. */
double end(const struct plan *plan, struct cluster *cluster) {
    for (uint64_t each = 0; each < plan->connections; each++) close(cluster->clients[each]);
    return wait_for_servers();
}
