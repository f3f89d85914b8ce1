/* Finds the attempt, runs it and prints what came of it. */
#include "escape.h"

static int number;
static char **values;
static const char *reasons[32];
static int reasons_count;

const char *given(const char *name) {
  size_t length = strlen(name);
  for (char **value = values; *value; value++)
    if (!strncmp(*value, name, length) && (*value)[length] == '=') return *value + length + 1;
  return NULL;
}

long given_number(const char *name, long otherwise) {
  const char *value = given(name);
  return value ? atol(value) : otherwise;
}

void each_given(const char *name, void (*each)(const char *part)) {
  const char *value = given(name);
  if (!value) return;
  char *copy = strdup(value), *rest = copy, *part;
  while ((part = strsep(&rest, " ")))
    if (*part) each(part);
  free(copy);
}

void escaped(const char *why) {
  printf("ESCAPED %d %s\n", number, why);
  fflush(stdout);
  _exit(1);
}

void stopped(const char *reason) {
  for (int i = 0; i < reasons_count; i++)
    if (!strcmp(reasons[i], reason)) return;
  if (reasons_count < 32) reasons[reasons_count++] = reason;
}

void stopped_by(int error) {
  const char *name = strerrorname_np(error);
  stopped(name ? name : "unknown error");
}

void tried(long result, const char *what) {
  if (result >= 0) escaped(what);
  stopped_by(errno);
}

void tried_apart(long (*call)(void), const char *what) {
  pid_t child = fork();
  if (child == 0) {
    long result = call();
    _exit(result >= 0 ? 0 : errno);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) return stopped_by(errno);
  if (WIFSIGNALED(status)) return stopped(WTERMSIG(status) == SIGSYS ? "SIGSYS" : strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) == 0) escaped(what);
  stopped_by(WEXITSTATUS(status));
}

void try_open(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  tried(fd, path);
}

void try_read(const char *path) {
  char text[4096];
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return stopped_by(errno);
  ssize_t length = read(fd, text, sizeof text - 1);
  if (length < 0) stopped_by(errno);
  close(fd);
  if (length < 0) return;
  text[length] = 0;
  const char *mark = given("mark");
  if (!mark || memmem(text, length, mark, strlen(mark))) escaped(path);
  stopped("not the machine's");
}

const char *own_folder(void) {
  static char folder[64];
  snprintf(folder, sizeof folder, "escape-%d-%d", number, (int)getpid());
  if (mkdir(folder, 0700) && errno != EEXIST) stopped_by(errno);
  return folder;
}

int main(int count, char **arguments) {
  const struct attempt *parts[] = {file_attempts, kernel_attempts, net_attempts, process_attempts, resource_attempts};
  if (count == 2 && !strcmp(arguments[1], "list")) {
    for (int part = 0; part < 5; part++)
      for (const struct attempt *attempt = parts[part]; attempt->name; attempt++)
        printf("%d %s\n", attempt->number, attempt->name);
    return 0;
  }
  number = count > 1 ? atoi(arguments[1]) : 0;
  values = arguments + (count > 1 ? 2 : 1);
  for (int part = 0; part < 5; part++)
    for (const struct attempt *attempt = parts[part]; attempt->name; attempt++)
      if (attempt->number == number) {
        attempt->run();
        printf("BLOCKED %d ", number);
        for (int i = 0; i < reasons_count; i++) printf("%s%s", i ? "," : "", reasons[i]);
        printf("\n");
        return 0;
      }
  fprintf(stderr, "escape NUMBER [NAME=VALUE...], or escape list\n");
  return 64;
}
