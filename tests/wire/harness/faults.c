/* A disk that fails or stalls, names that nobody looks up, ports that repeat, and no new threads, for one process: loaded
 * before the C library.
 *
 * FAULTS names a directory. A file `sync` or `write` in it is a fault of that call on everything below `data/` in it:
 * "stall" waits as long as the file is there, a number fails the call of that number once, anything else fails. As long
 * as there is a file `lookup`, lookups of names wait. A file `port` holds the port of a peer: all connections to it seem
 * to have one local port. As long as there is a file `thread`, no thread can be started.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Reads a file of the directory; 0: there is none. */
static int told(const char *name, char *path, char *text) {
    const char *dir = getenv("FAULTS");
    if (!dir) return 0;
    snprintf(path, 4096, "%s/%s", dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t length = read(fd, text, 63);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    return 1;
}

static int is_below(int fd) {
    char link[64], path[4096], data[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    snprintf(data, sizeof data, "%s/data/", getenv("FAULTS"));
    return length > 0 && !strncmp(path, data, strlen(data));
}

/* How many calls came since a fault was told. */
static int calls;

static int fails(const char *name, int fd) {
    char path[4096], text[64];
    int saved = errno;
    while (told(name, path, text) && is_below(fd)) {
        int nth = atoi(text);
        if (nth && (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) != nth || unlink(path))) break;
        if (nth) __atomic_store_n(&calls, 0, __ATOMIC_SEQ_CST);
        if (strcmp(text, "stall")) {
            errno = EIO;
            return 1;
        }
        usleep(10000);
    }
    errno = saved;
    return 0;
}

int fsync(int fd) { return fails("sync", fd) ? -1 : syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return fails("sync", fd) ? -1 : syscall(SYS_fdatasync, fd); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    return fails("write", fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return pwrite64(fd, bytes, length, at); }

int getsockname(int fd, struct sockaddr *address, socklen_t *length) {
    char path[4096], text[64];
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    int done = syscall(SYS_getsockname, fd, address, length);
    if (!done && address->sa_family == AF_INET && told("port", path, text)
        && !getpeername(fd, (struct sockaddr *)&peer, &size) && ntohs(peer.sin_port) == atoi(text))
        ((struct sockaddr_in *)address)->sin_port = htons(1);
    return done;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*work)(void *), void *of) {
    char path[4096], text[64];
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    return told("thread", path, text) ? EAGAIN : real(thread, with, work, of);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    char path[4096], text[64];
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    while (told("lookup", path, text)) usleep(10000);
    return real(node, service, hints, found);
}
