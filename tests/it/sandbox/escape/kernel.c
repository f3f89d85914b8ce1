/* 15 to 34: system calls that make namespaces, look into other processes or widen the kernel's surface. */
#include "escape.h"
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int flag;
static long unshare_flag(void) { return unshare(flag); }
static long clone_flag(void) {
  long pid = syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  return pid;
}
static long clone3_flag(void) {
  struct clone_args arguments = {.flags = flag, .exit_signal = SIGCHLD};
  long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid == 0) _exit(0);
  return pid;
}

static const int spaces[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWIPC, CLONE_NEWUTS,
                             CLONE_NEWCGROUP, 0};

static void unshare_spaces(void) {
  for (const int *each = spaces; *each; each++) {
    flag = *each;
    tried_apart(unshare_flag, "unshare");
  }
}

static void clone_spaces(void) {
  for (const int *each = spaces; *each; each++) {
    flag = *each;
    tried_apart(clone3_flag, "clone3");
    tried_apart(clone_flag, "clone");
  }
}

static void join_spaces(void) {
  static const char *const names[] = {"net", "mnt", "pid", "user"};
  for (int i = 0; i < 4; i++) {
    char path[64];
    for (int pid = 0; pid < 2; pid++) {
      snprintf(path, sizeof path, "/proc/%s/ns/%s", pid ? "1" : "self", names[i]);
      int space = open(path, O_RDONLY | O_CLOEXEC);
      if (space < 0) {
        stopped_by(errno);
        continue;
      }
      tried(setns(space, 0), path);
      close(space);
    }
  }
}

static void mounts(void) {
  const char *folder = own_folder();
  for (const char *const *kind = (const char *const[]){"tmpfs", "proc", "sysfs", "cgroup2", NULL}; *kind; kind++) {
    int result = mount(*kind, folder, *kind, 0, NULL);
    if (result == 0) umount2(folder, MNT_DETACH);
    tried(result, *kind);
  }
  tried(mount("/", folder, NULL, MS_BIND, NULL), "bind");
  tried(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL), "remount /usr writable");
  tried(umount2("/proc", MNT_DETACH), "umount");
  rmdir(folder);
}

static void pivot(void) {
  const char *folder = own_folder();
  if (mount(folder, folder, NULL, MS_BIND, NULL)) stopped_by(errno);
  tried(syscall(SYS_pivot_root, folder, folder), "pivot_root");
  tried(syscall(SYS_pivot_root, ".", "."), "pivot_root");
  rmdir(folder);
}

static void new_mounts(void) {
  tried(syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */), "open_tree");
  tried(syscall(SYS_fsopen, "tmpfs", 0), "fsopen");
  tried(syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/usr", 0), "move_mount");
  tried(syscall(SYS_fspick, AT_FDCWD, "/", 0), "fspick");
}

static void change_root(void) {
  const char *folder = own_folder();
  int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  long result = chroot(folder);
  if (result == 0 && fchdir(here) == 0)
    for (int up = 0; up < 64; up++)
      if (chdir("..")) break;
  if (result < 0) stopped_by(errno);
  rmdir(folder);
  if (result == 0) escaped("chroot, and out of it again");
}

static void handles(void) {
  struct {
    struct file_handle handle;
    char space[MAX_HANDLE_SZ];
  } file = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
  int mount_id, here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (name_to_handle_at(here, ".", &file.handle, &mount_id, 0)) {
    stopped_by(errno);
    file.handle.handle_bytes = 8, file.handle.handle_type = 1; /* inode 2: the root of an ext4 */
    memcpy(file.handle.f_handle, (int[]){2, 0}, 8);
  }
  tried(open_by_handle_at(here, &file.handle, O_RDONLY), "open_by_handle_at");
}

/* Another process of ours, which waits. */
static pid_t sibling(void) {
  pid_t pid = fork();
  if (pid == 0)
    for (;;) pause();
  if (pid < 0) stopped_by(errno);
  return pid;
}

static long last(pid_t other, long result) {
  int error = errno;
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
  errno = error;
  return result;
}

static void trace(void) {
  pid_t other = sibling();
  tried(last(other, ptrace(PTRACE_SEIZE, other, 0, 0)), "ptrace");
}

static void write_memory(void) {
  static char word[8] = "before";
  char other_word[8] = "after";
  struct iovec from = {other_word, 8}, to = {word, 8};
  pid_t other = sibling();
  long written = process_vm_writev(other, &from, 1, &to, 1, 0);
  if (written >= 0) last(other, 0), escaped("process_vm_writev");
  stopped_by(errno);
  tried(last(other, process_vm_readv(other, &to, 1, &from, 1, 0)), "process_vm_readv");
}

static void take_descriptor(void) {
  pid_t other = sibling();
  int handle = syscall(SYS_pidfd_open, other, 0);
  if (handle < 0) stopped_by(errno);
  tried(last(other, syscall(SYS_pidfd_getfd, handle, 0, 0)), "pidfd_getfd");
}

static void bpf_map(void) {
  union bpf_attr attributes = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
  tried(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes), "bpf");
}

static void perf(void) {
  struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attributes, .config = PERF_COUNT_SW_CPU_CLOCK};
  tried(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0), "perf_event_open");
}

static void keys(void) {
  tried(syscall(SYS_add_key, "user", "forgehand-escape", "x", 1, -2 /* of the process */), "add_key");
  tried(syscall(SYS_keyctl, 0 /* get id */, -3 /* of the session */, 1), "keyctl");
  tried(syscall(SYS_request_key, "user", "forgehand-escape", 0, -2), "request_key");
}

static void faults(void) {
  tried(syscall(SYS_userfaultfd, O_CLOEXEC), "userfaultfd");
  try_open("/dev/userfaultfd", O_RDWR);
}

static void ring(void) {
  struct io_uring_params parameters = {0};
  tried(syscall(SYS_io_uring_setup, 4, &parameters), "io_uring_setup");
  tried(syscall(SYS_io_uring_enter, -1, 0, 0, 0, 0, 0), "io_uring_enter");
  tried(syscall(SYS_io_uring_register, -1, 0, 0, 0), "io_uring_register");
}

#ifdef __x86_64__
static long descriptor_table(void) {
  char table[8];
  return syscall(SYS_modify_ldt, 0, table, sizeof table);
}
static long x32_call(void) { return syscall(0x40000000 + SYS_getpid); }
static long i386_call(void) {
  long result = 20; /* getpid */
  __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
  return result < 0 ? (errno = -result, -1) : 0;
}
static void old_calls(void) {
  tried_apart(descriptor_table, "modify_ldt");
  tried_apart(x32_call, "a call of x32");
  tried_apart(i386_call, "a call of i386");
}
#else
static void old_calls(void) { stopped("another architecture"); }
#endif

static void socket_of(int family, int kind, int protocol, const char *what) {
  tried(socket(family, kind | SOCK_CLOEXEC, protocol), what);
}
static void crypto(void) { socket_of(AF_ALG, SOCK_SEQPACKET, 0, "AF_ALG"); }
static void virtual_machine(void) {
  socket_of(AF_VSOCK, SOCK_STREAM, 0, "AF_VSOCK");
  socket_of(AF_VSOCK, SOCK_DGRAM, 0, "AF_VSOCK");
}
static void packets(void) {
  socket_of(AF_PACKET, SOCK_RAW, 0x0300, "AF_PACKET");
  socket_of(AF_PACKET, SOCK_DGRAM, 0x0300, "AF_PACKET");
  socket_of(AF_NETLINK, SOCK_RAW, 9 /* audit */, "AF_NETLINK audit");
  socket_of(AF_NETLINK, SOCK_RAW, 12 /* netfilter */, "AF_NETLINK netfilter");
}

const struct attempt kernel_attempts[] = {
    {15, "unshare", unshare_spaces},
    {16, "clone and clone3 with namespaces", clone_spaces},
    {17, "setns", join_spaces},
    {18, "mount", mounts},
    {19, "pivot_root", pivot},
    {20, "open_tree and move_mount", new_mounts},
    {21, "chroot", change_root},
    {22, "open_by_handle_at", handles},
    {23, "ptrace of a sibling", trace},
    {24, "process_vm_writev", write_memory},
    {25, "pidfd_getfd", take_descriptor},
    {26, "bpf", bpf_map},
    {27, "perf_event_open", perf},
    {28, "keyctl", keys},
    {29, "userfaultfd", faults},
    {30, "io_uring", ring},
    {31, "modify_ldt, x32, int 0x80", old_calls},
    {32, "AF_ALG", crypto},
    {33, "AF_VSOCK", virtual_machine},
    {34, "AF_PACKET", packets},
    {0},
};
