/* The floor of side_by_side.py: one recv and one send per request, on connections that stay open.
 * `raw PORT FILE` answers whatever it is asked with the bytes of FILE. It parses nothing but the end of a head. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static char answer[1 << 20];
static size_t size;

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* Sends all of the answer; a client that reads slowly holds up the others. */
static int reply(int client) {
    for (size_t sent = 0; sent < size;) {
        ssize_t now = send(client, answer + sent, size - sent, MSG_NOSIGNAL);
        if (now <= 0) return 0;
        sent += (size_t)now;
    }
    return 1;
}

int main(int count, char **arguments) {
    if (count != 3) return 64;
    FILE *file = fopen(arguments[2], "rb");
    if (!file) die(arguments[2]);
    size = fread(answer, 1, sizeof answer, file);
    fclose(file);

    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 128)) die("listen");
    int poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);

    struct epoll_event ready[64];
    static char request[16384];
    for (;;) {
        int many = epoll_wait(poll, ready, 64, -1);
        for (int at = 0; at < many; at++) {
            int client = ready[at].data.fd;
            if (client == listener) {
                client = accept(listener, NULL, NULL);
                if (client < 0) continue;
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                event.data.fd = client;
                epoll_ctl(poll, EPOLL_CTL_ADD, client, &event);
                continue;
            }
            ssize_t got = recv(client, request, sizeof request, 0);
            /* A head in two pieces is answered once, after its end. */
            int whole = got >= 4 && !memcmp(request + got - 4, "\r\n\r\n", 4);
            if (got <= 0 || (whole && !reply(client))) close(client);
        }
    }
}
