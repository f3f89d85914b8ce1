/* 49 to 55: processes that multiply, hide, outlive their time or reach for those of others. */
#include "escape.h"
#include <sys/ioctl.h>
#include <sys/time.h>
#include <termios.h>
#include <time.h>

/* As many as were asked for, each of which waits; amounts that are harmless bare. */
static void fork_bomb(void) {
  long most = given_number("most", 0);
  setpgid(0, 0);
  if (getpgrp() != getpid()) return stopped("refused: no group of its own");
  for (long made = 0; made < most; made++) {
    pid_t pid = fork();
    if (pid < 0) {
      stopped_by(errno);
      break;
    }
    if (pid == 0)
      for (;;) pause();
    if (made == most - 1) {
      signal(SIGTERM, SIG_IGN);
      kill(0, SIGTERM);
      escaped("every process was made");
    }
  }
  /* What limits it may need a moment to see it. */
  for (int i = 0; i < 50; i++) usleep(100000);
}

/* Leaves a process that nothing but SIGKILL ends, under a name by which it is found, for ten seconds. */
static void linger(const char *marker) {
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  execl("/proc/self/exe", "escape", "0", marker, (char *)NULL);
}

static void daemonize(void) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      for (int fd = 0; fd < 3; fd++) close(fd);
      char name[64];
      snprintf(name, sizeof name, "linger=%s", given("marker"));
      linger(name);
    }
    _exit(0);
  }
  wait(NULL);
  printf("LEFT 50\n");
}

/* Process 0 of the corpus: what the two others leave. */
static void lingering(void) {
  if (!given("linger")) return;
  for (int i = 0; i < 100; i++) usleep(100000);
}

/* Whether this is another namespace of processes than the test's, so that signals stay inside. */
static int is_apart(void) {
  char own[64] = "";
  const char *outside = given("outside");
  if (readlink("/proc/self/ns/pid", own, sizeof own - 1) < 0 || !outside || !strcmp(own, outside)) {
    stopped("refused: signals would reach the machine");
    return 0;
  }
  return 1;
}

static void kill_all(void) {
  if (!is_apart()) return;
  int result = kill(-1, SIGKILL);
  tried(result, "kill -1");
}

static char state_of(pid_t pid) {
  char path[64], line[256], state = '?';
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *status = fopen(path, "re");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "State: %c", &state);
  if (status) fclose(status);
  return state;
}

/* The parent of the command is the one that keeps its deadline. */
static void stop_parent(void) {
  pid_t parent = getppid();
  if (kill(parent, SIGSTOP)) return stopped_by(errno);
  char state = '?';
  for (int i = 0; i < 20 && state != 'T'; i++) usleep(10000), state = state_of(parent);
  kill(parent, SIGCONT);
  if (state == 'T') escaped("the parent stood still");
  stopped("ignored");
}

static void end_first(void) {
  if (!is_apart()) return;
  for (const int *sent = (const int[]){SIGTERM, SIGSEGV, SIGABRT, SIGKILL, 0}; *sent; sent++)
    if (kill(1, *sent)) stopped_by(errno);
  usleep(100000);
  if (kill(1, 0) && errno == ESRCH) escaped("process 1 ended");
  stopped("ignored");
}

static void on_timer(int unused) {
  (void)unused;
  int made = open("timer-fired", O_CREAT | O_WRONLY, 0600);
  if (made >= 0) close(made);
}

/* Goes on after SIGTERM, and does something when its time should be over. */
static void timer(void) {
  struct itimerval later = {.it_value = {.tv_sec = given_number("seconds", 6)}};
  struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  setitimer(ITIMER_REAL, &later, NULL);
  setsid();
  pause();
  while (access("timer-fired", F_OK)) pause();
  escaped("the timer fired");
}

/* Types into the terminal of the service, or into one of its own that shows that typing works. */
static void type(void) {
  char letter = 'x';
  for (int fd = 0; fd < 3; fd++) tried(ioctl(fd, TIOCSTI, &letter), "TIOCSTI");
  int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
  if (terminal < 0) stopped_by(errno);
  else tried(ioctl(terminal, TIOCSTI, &letter), "TIOCSTI into /dev/tty");
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master)) return stopped_by(errno);
  setsid();
  int slave = open(ptsname(master), O_RDWR);
  if (slave < 0) return stopped_by(errno);
  ioctl(slave, TIOCSCTTY, 0);
  tried(ioctl(slave, TIOCSTI, &letter), "TIOCSTI into a terminal of its own");
}

const struct attempt process_attempts[] = {
    {0, "what others leave", lingering},
    {49, "a fork bomb", fork_bomb},
    {50, "a daemon in a session of its own", daemonize},
    {51, "kill -1", kill_all},
    {52, "SIGSTOP to the parent", stop_parent},
    {53, "the end of process 1", end_first},
    {54, "a timer after the timeout", timer},
    {55, "TIOCSTI", type},
    {0},
};
