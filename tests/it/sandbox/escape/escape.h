/*
 * The escape corpus: sixty attempts to get out of a sandbox, one to a number. Called as
 * `escape NUMBER [NAME=VALUE...]`; the values say what of the machine the attempt goes for.
 * Each prints one line: `ESCAPED number why`, or `BLOCKED number reasons`, the reasons being the names
 * of the errors that stopped it, in the order in which they were first seen.
 *
 * Never harms the machine when it succeeds: files are opened and not written, what is made is
 * removed, and amounts come from outside.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* What an attempt is called with: the value of a name, or nothing. */
const char *given(const char *name);
/* The same as a number; `otherwise` where it is not given. */
long given_number(const char *name, long otherwise);
/* Calls `each` with every part of a value whose parts are separated by blanks. */
void each_given(const char *name, void (*each)(const char *part));

/* It got out: says why and ends. */
void escaped(const char *why) __attribute__((noreturn));
/* It was stopped: remembers why and goes on with the next way. */
void stopped(const char *reason);
void stopped_by(int error);
/* The result of a call: an escape when it is no error. */
void tried(long result, const char *what);
/* The same in a process of its own, since the call may end it; a signal is a reason. */
void tried_apart(long (*call)(void), const char *what);
/* Opens, and closes again; an escape when it can. */
void try_open(const char *path, int flags);
/* Reads a file for the mark that the test left there. */
void try_read(const char *path);
/* Makes a folder of its own for the attempt, below the working directory. */
const char *own_folder(void);

struct attempt {
  int number;
  const char *name;
  void (*run)(void);
};

/* Each ends with an entry without a name. */
extern const struct attempt file_attempts[], kernel_attempts[], net_attempts[], process_attempts[],
    resource_attempts[];
