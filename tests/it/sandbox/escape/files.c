/* 1 to 14: files of the machine, of other runs and of the service. */
#include "escape.h"
#include <dirent.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static void shadow(void) {
  try_open("/etc/shadow", O_RDONLY);
  try_open("/etc/gshadow", O_RDONLY);
}

static void keys_below(const char *home) {
  char path[4200];
  snprintf(path, sizeof path, "%s/.ssh", home);
  DIR *folder = opendir(path);
  if (!folder) return stopped_by(errno);
  escaped(path);
}

static void ssh_keys(void) {
  keys_below("/root");
  if (getenv("HOME")) keys_below(getenv("HOME"));
  DIR *homes = opendir("/home");
  for (struct dirent *entry; homes && (entry = readdir(homes));) {
    char home[512];
    snprintf(home, sizeof home, "/home/%s", entry->d_name);
    if (entry->d_name[0] != '.') keys_below(home);
  }
  each_given("home", keys_below);
}

/* Of every process that can be seen: one with the service's variable is the service's. */
static void environments(void) {
  const char *mark = given("variable");
  DIR *processes = opendir("/proc");
  for (struct dirent *entry; processes && (entry = readdir(processes));) {
    int pid = atoi(entry->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    char path[64], text[1 << 16];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (length < 0) stopped_by(errno);
    else if (mark && memmem(text, length, mark, strlen(mark))) escaped(path);
    else stopped("not the machine's");
    if (fd >= 0) close(fd);
  }
}

static void root_of_first(const char *path) {
  char through[4200];
  for (const char *const *way = (const char *const[]){"root", "cwd", "fd/0", NULL}; *way; way++) {
    snprintf(through, sizeof through, "/proc/1/%s%s", *way, path);
    try_read(through);
  }
}

static void first_root(void) { each_given("secret", root_of_first); }

static void sysrq(void) {
  try_open("/proc/sysrq-trigger", O_WRONLY);
  try_open("/proc/sys/kernel/sysrq", O_WRONLY);
  try_open("/proc/sys/vm/drop_caches", O_WRONLY);
}

static void kernel_memory(void) {
  try_open("/proc/kcore", O_RDONLY);
  try_open("/proc/kallsyms", O_RDWR);
  try_open("/dev/kmsg", O_RDONLY);
}

static void cgroup_write(void) {
  const char *made = "/sys/fs/cgroup/forgehand-escape";
  int result = mkdir(made, 0755);
  if (result == 0) rmdir(made);
  tried(result, "mkdir in /sys/fs/cgroup");
  for (const char *const *path = (const char *const[]){"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/tasks",
                                                       "/sys/fs/cgroup/memory/release_agent", NULL};
       *path; path++)
    try_open(*path, O_WRONLY);
}

static void kernel_helpers(void) {
  try_open("/sys/kernel/uevent_helper", O_WRONLY);
  try_open("/proc/sys/kernel/core_pattern", O_WRONLY);
  try_open("/proc/sys/kernel/modprobe", O_WRONLY);
}

static void devices(void) {
  for (const char *const *path = (const char *const[]){"/dev/mem", "/dev/sda", "/dev/vda", "/dev/kvm", "/dev/fuse",
                                                       "/dev/loop-control", "/dev/net/tun", "/dev/vsock", NULL};
       *path; path++)
    try_open(*path, O_RDWR);
  int made = mknod("escape-node", S_IFBLK | 0600, makedev(8, 0));
  if (made == 0) unlink("escape-node");
  tried(made, "mknod of a disk");
}

static void read_given(const char *name) { each_given(name, try_read); }
static void host_tmp(void) { read_given("tmp"); }
static void other_workspace(void) { read_given("workspace"); }
static void database(void) { read_given("database"); }

static void open_to_write(const char *path) { try_open(path, O_WRONLY); }

/* The program by its path, and through the process that runs it (CVE-2019-5736). */
static void service_program(void) {
  each_given("program", open_to_write);
  open_to_write("/proc/1/exe");
  try_open("/proc/1/exe", O_PATH);
}

/* A descriptor that was left open, or a socket among the first three that takes descriptors. */
static void inherited(void) {
  for (int fd = 3; fd < 1024; fd++)
    if (fcntl(fd, F_GETFD) >= 0) escaped("a descriptor was inherited");
    else stopped_by(errno);
  for (int fd = 0; fd < 3; fd++) {
    char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    tried(sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT), "a descriptor was passed out");
  }
}

const struct attempt file_attempts[] = {
    {1, "password hashes", shadow},
    {2, "keys of ssh", ssh_keys},
    {3, "environments of processes", environments},
    {4, "the root of process 1", first_root},
    {5, "sysrq-trigger", sysrq},
    {6, "the kernel's memory", kernel_memory},
    {7, "writing to cgroups", cgroup_write},
    {8, "programs that the kernel starts", kernel_helpers},
    {9, "devices", devices},
    {10, "the machine's /tmp", host_tmp},
    {11, "another run's workspace", other_workspace},
    {12, "the database", database},
    {13, "overwriting the service's program", service_program},
    {14, "descriptors over an inherited socket", inherited},
    {0},
};
