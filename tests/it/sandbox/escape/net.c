/* 35 to 48: ways to another machine, to the service's ports and sockets, and around the proxy. */
#include "escape.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PATIENCE_MS 3000

/* An address in its usual writing, with `%device` behind it where it needs one. */
static socklen_t parse_address(const char *text, int port, struct sockaddr_storage *address) {
  struct sockaddr_in *four = (void *)address;
  struct sockaddr_in6 *six = (void *)address;
  char plain[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
  memset(address, 0, sizeof *address);
  snprintf(plain, sizeof plain, "%s", text);
  char *device = strchr(plain, '%');
  if (device) *device++ = 0;
  if (inet_pton(AF_INET, plain, &four->sin_addr) == 1) {
    four->sin_family = AF_INET, four->sin_port = htons(port);
    return sizeof *four;
  }
  if (inet_pton(AF_INET6, plain, &six->sin6_addr) != 1) fprintf(stderr, "no address: %s\n", text), exit(64);
  six->sin6_family = AF_INET6, six->sin6_port = htons(port);
  six->sin6_scope_id = device ? if_nametoindex(device) : 0;
  return sizeof *six;
}

/* Connects without waiting for ever; -1 with the reason in errno. */
static int connected(int fd, const void *address, socklen_t length) {
  int error = 0;
  socklen_t size = sizeof error;
  if (fd < 0) return -1;
  if (connect(fd, address, length) == 0) return fd;
  struct pollfd waiting = {fd, POLLOUT, 0};
  if (errno == EINPROGRESS) {
    error = poll(&waiting, 1, PATIENCE_MS) == 1 ? 0 : ETIMEDOUT;
    if (!error) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (!error) return fd;
  } else {
    error = errno;
  }
  close(fd);
  errno = error;
  return -1;
}

/* `tcp/ADDRESS/PORT` or `udp/ADDRESS/PORT`: an escape when it connects, and when a datagram leaves. */
static void reach(const char *target) {
  char kind[8], address_text[64];
  int port;
  struct sockaddr_storage address;
  if (sscanf(target, "%7[a-z]/%63[^/]/%d", kind, address_text, &port) != 3) fprintf(stderr, "no target: %s\n", target), exit(64);
  socklen_t length = parse_address(address_text, port, &address);
  int is_tcp = !strcmp(kind, "tcp");
  int fd = socket(address.ss_family, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  fd = connected(fd, &address, length);
  if (fd >= 0 && !is_tcp) {
    if (send(fd, "escape", 6, MSG_NOSIGNAL) < 0) close(fd), fd = -1;
  }
  tried(fd, target);
}

static void targets(void) { each_given("to", reach); }

static void ping(const char *text) {
  struct sockaddr_storage address;
  socklen_t length = parse_address(text, 0, &address);
  int is_four = address.ss_family == AF_INET;
  for (int kind = 0; kind < 2; kind++) {
    int fd = socket(address.ss_family, (kind ? SOCK_RAW : SOCK_DGRAM) | SOCK_CLOEXEC, is_four ? IPPROTO_ICMP : IPPROTO_ICMPV6);
    struct icmp6_hdr echo = {.icmp6_type = is_four ? ICMP_ECHO : ICMP6_ECHO_REQUEST};
    tried(fd < 0 ? -1 : sendto(fd, &echo, sizeof echo, 0, (void *)&address, length), "an echo request left");
    if (fd >= 0) close(fd);
  }
}

static void pings(void) { each_given("ping", ping); }

/* A resolver that the settings name, then those that were given. */
static void resolvers(void) {
  FILE *settings = fopen("/etc/resolv.conf", "re");
  char line[256], address[64], target[80];
  int found = 0;
  while (settings && fgets(line, sizeof line, settings))
    if (sscanf(line, "nameserver %63s", address) == 1 && ++found)
      for (int kind = 0; kind < 2 && !given("only"); kind++) {
        snprintf(target, sizeof target, "%s/%s/53", kind ? "tcp" : "udp", address);
        reach(target);
      }
  if (!found) stopped("no resolver");
  targets();
}

static void unix_socket(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length >= sizeof address.sun_path) return stopped_by(ENAMETOOLONG);
  memcpy(address.sun_path, path, length);
  /* Abstract names begin with a zero byte, here written as an at sign. */
  if (path[0] == '@') address.sun_path[0] = 0;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  tried(connected(fd, &address, offsetof(struct sockaddr_un, sun_path) + length), path);
}

static void abstract(void) { each_given("to", unix_socket); }

static void docker(void) {
  unix_socket("/var/run/docker.sock");
  unix_socket("/run/docker.sock");
  unix_socket("/run/podman/podman.sock");
  unix_socket("/run/containerd/containerd.sock");
  each_given("to", unix_socket);
}

static void buses(void) {
  unix_socket("/run/dbus/system_bus_socket");
  unix_socket("/run/systemd/private");
  unix_socket("/run/systemd/notify");
  unix_socket("/run/systemd/journal/stdout");
  each_given("to", unix_socket);
}

static int proxy(void) {
  struct sockaddr_storage address;
  socklen_t length = parse_address("127.0.0.1", given_number("proxy", 0), &address);
  int fd = connected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &address, length);
  if (fd < 0) perror("the proxy must be there"), exit(65);
  return fd;
}

/* What comes back next, as text; empty when nothing does. */
static const char *answer(int fd) {
  static char text[4096];
  struct pollfd waiting = {fd, POLLIN, 0};
  ssize_t length = poll(&waiting, 1, PATIENCE_MS) == 1 ? recv(fd, text, sizeof text - 1, 0) : 0;
  text[length > 0 ? length : 0] = 0;
  return text;
}

/* Sends a head; its status is the reason, unless the proxy did it. */
static int ask(const char *head, size_t length) {
  int fd = proxy();
  send(fd, head, length, MSG_NOSIGNAL);
  const char *text = answer(fd);
  char *status = strndup(strlen(text) > 12 ? text + 9 : "closed", strlen(text) > 12 ? 3 : 6);
  if (!strcmp(status, "200")) return fd;
  stopped(status);
  close(fd);
  return -1;
}

static void ask_connect(const char *host, const char *before, size_t before_length, int port) {
  char head[1024];
  size_t length = 0;
  length += sprintf(head, "CONNECT ");
  memcpy(head + length, before, before_length);
  length += before_length;
  length += sprintf(head + length, "%s:%d HTTP/1.1\r\nHost: %s\r\n\r\n", host, port, host);
  if (ask(head, length) >= 0) escaped("the proxy opened a tunnel");
}

static void nul_host(void) {
  const char *host = given("host");
  ask_connect(host, "evil.example\0.", 14, 443);
  ask_connect(host, "evil.example\0", 13, 443);
}

/* The tunnel is allowed; what is said in it names another host. */
static void other_name(void) {
  char head[1024], byte[3] = "";
  unsigned char hello[2048];
  size_t length = 0;
  const char *host = given("host"), *hex = given("hello");
  int fd = ask(head, sprintf(head, "CONNECT %s:%ld HTTP/1.1\r\nHost: %s:%ld\r\n\r\n", host, given_number("port", 443), host, given_number("port", 443)));
  if (fd < 0) return;
  for (; hex && hex[0] && hex[1] && length < sizeof hello; hex += 2) {
    memcpy(byte, hex, 2);
    hello[length++] = strtol(byte, NULL, 16);
  }
  send(fd, hello, length, MSG_NOSIGNAL);
  if (*answer(fd)) escaped("somebody answered a greeting for another host");
  stopped("closed");
}

static void odd_ports(void) {
  for (const int *port = (const int[]){22, 25, 2375, 5432, 0}; *port; port++) ask_connect(given("host"), "", 0, *port);
}

/* Whoever forgets the proxy goes straight to the host's own address. */
static void without_proxy(void) {
  for (const char *const *name = (const char *const[]){"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", NULL}; *name; name++)
    unsetenv(*name);
  setenv("NO_PROXY", "*", 1);
  targets();
}

static void link_local(void) {
  struct if_nameindex *devices = if_nameindex();
  if (!devices) return stopped_by(errno);
  for (struct if_nameindex *device = devices; device->if_index; device++)
    for (const char *const *address = (const char *const[]){"fe80::1", "ff02::1", NULL}; *address; address++) {
      char target[64];
      snprintf(target, sizeof target, "udp/%s%%%s/5353", *address, device->if_name);
      reach(target);
    }
}

const struct attempt net_attempts[] = {
    {35, "TCP and UDP, v4 and v6", targets},
    {36, "ICMP", pings},
    {37, "DNS over UDP and TCP", resolvers},
    {38, "DNS over HTTPS", targets},
    {39, "metadata services of three clouds", targets},
    {40, "the service's port on loopback", targets},
    {41, "an abstract socket", abstract},
    {42, "docker.sock", docker},
    {43, "sockets of D-Bus and systemd", buses},
    {44, "the proxy with a NUL in the host", nul_host},
    {45, "the proxy with another name in TLS", other_name},
    {46, "the proxy to ports that are not the web's", odd_ports},
    {47, "around the proxy with NO_PROXY", without_proxy},
    {48, "link-local addresses", link_local},
    {0},
};
