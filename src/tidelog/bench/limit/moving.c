/* Sockets, files and processes: every call either does what it should or ends the program. */
#include "limit.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "limit: ");
    vfprintf(stderr, format, values);
    fprintf(stderr, "\n");
    va_end(values);
    exit(1);
}

ssize_t checked(ssize_t result, const char *call) {
    if (result < 0) fail("%s: %s", call, strerror(errno));
    return result;
}

double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

pid_t spawn(void) {
    pid_t child = checked(fork(), "fork");
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left of a run that was killed */
    return child;
}

/* Processor seconds of all processes that we started; fails when one of them did. */
double wait_for_servers(void) {
    int status;
    while (wait(&status) > 0) {
        if (status != 0) fail("a server ended with status %d", status);
    }
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* Both ends of one connection over loopback, made before the processes are. */
void connect_pair(int ends[2]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
    checked(bind(listener, (struct sockaddr *)&address, length), "bind");
    checked(listen(listener, 1), "listen");
    checked(getsockname(listener, (struct sockaddr *)&address, &length), "getsockname");
    ends[0] = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
    checked(connect(ends[0], (struct sockaddr *)&address, length), "connect");
    ends[1] = checked(accept(listener, NULL, NULL), "accept");
    close(listener);
    for (int end = 0; end < 2; end++) {
        int on = 1;
        setsockopt(ends[end], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
}

int create_file(const struct plan *plan, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", plan->directory, name);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0) fail("%s: %s", path, strerror(errno));
    return file;
}

char *new_buffer(uint64_t size) {
    char *buffer = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (buffer == MAP_FAILED) checked(-1, "mmap");
    return buffer;
}

void send_all(int socket, const void *bytes, uint64_t size) {
    for (uint64_t sent = 0; sent < size;) {
        ssize_t count = send(socket, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);
        sent += checked(count, "send");
    }
}

void write_all(int file, const char *bytes, uint64_t size) {
    for (uint64_t written = 0; written < size;) {
        written += checked(write(file, bytes + written, size - written), "write");
    }
}

/* Some bytes, at once or not at all; 0 when the other end is closed, -1 when there are none. */
ssize_t receive_now(int socket, void *bytes, uint64_t size) {
    ssize_t count = recv(socket, bytes, size, MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN) checked(-1, "recv");
    return count;
}

ssize_t receive_some(int socket, void *bytes, uint64_t size, int flags) {
    return checked(recv(socket, bytes, size, flags), "recv");
}

void watch(int epoll, int socket, uint32_t name) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = name};
    checked(epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event), "epoll_ctl");
}

