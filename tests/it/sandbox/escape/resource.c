/* 56 to 60: more memory, disk, inodes, descriptors and output than there is for one command. */
#include "escape.h"
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB (1L << 20)

/* A limit that kills needs a moment to see what passed it. */
static void wait_for_the_limit(void) {
  for (int i = 0; i < 80; i++) usleep(100000);
}

static void memory(void) {
  long most = given_number("mib", 0);
  for (long taken = 0; taken < most; taken += 8) {
    char *part = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (part == MAP_FAILED) return stopped_by(errno);
    memset(part, 1, 8 * MIB);
    if (!given("fast")) usleep(20000);
  }
  if (given("wait")) wait_for_the_limit();
  escaped("all of the memory was used");
}

static void disk(void) {
  static char block[MIB];
  const char *folder = own_folder();
  long most = given_number("mib", 0), written = 0;
  memset(block, 'x', sizeof block);
  for (int file = 0; written < most; file++) {
    char path[96];
    snprintf(path, sizeof path, "%s/%d", folder, file);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return stopped_by(errno);
    for (int part = 0; part < 8 && written < most; part++, written++)
      if (write(fd, block, sizeof block) != sizeof block) return stopped_by(errno);
    close(fd);
  }
  if (given("wait")) wait_for_the_limit();
  escaped("all of the disk was written");
}

static void inodes(void) {
  const char *folder = own_folder();
  long most = given_number("files", 0);
  for (long made = 0; made < most; made++) {
    char path[96];
    snprintf(path, sizeof path, "%s/%ld", folder, made);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return stopped_by(errno);
    close(fd);
  }
  if (given("wait")) wait_for_the_limit();
  escaped("every file was made");
}

static void descriptors(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  long most = given_number("files", 0);
  for (long opened = 0; opened < most; opened++)
    if (open("/dev/null", O_RDONLY) < 0) return stopped_by(errno);
  escaped("every file was opened");
}

static void output(void) {
  static char block[MIB];
  memset(block, 'x', sizeof block);
  for (long written = 0, most = given_number("mib", 0); written < most; written++)
    for (size_t at = 0; at < sizeof block;) {
      ssize_t some = write(1, block + at, sizeof block - at);
      if (some < 0) return stopped_by(errno);
      at += some;
    }
  printf("\n");
  escaped("all of the output was taken");
}

const struct attempt resource_attempts[] = {
    {56, "memory", memory},
    {57, "disk", disk},
    {58, "inodes", inodes},
    {59, "descriptors", descriptors},
    {60, "output without end", output},
    {0},
};
