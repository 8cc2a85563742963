// Discovery in a process of its own, for kernels that are not Shoal's: cut in unusual parts, one
// may crash or never end, and that must not take the program with it. The child finds the rule and
// writes its text into a pipe; the parent parses it. A child that ends otherwise says that the op
// has no ways.
//
// Only the thread that forks exists in the child, which computes and ends without flushing or
// freeing anything. Ops that are executed by a callback are not looked at here: what is behind it
// (an interpreter, a device) may not outlive a fork.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/status.h"
#include "rules/resolve.h"
#include "rules/symbols.h"

enum { SECONDS = 60 };  // a child that takes longer is taken for one that never ends

// ---- the child ---------------------------------------------------------------------------------

static void write_all(int fd, const char *data, size_t size) {
  while (size > 0) {
    ssize_t done = write(fd, data, size);
    if (done <= 0) _exit(1);
    data += done;
    size -= (size_t)done;
  }
}

// "+note\nways" or "-" and the status as bytes.
_Noreturn static void find(const shoal_call_t *call, const shoal_rules_second_t *second,
                           shoal_executor_t executor, shoal_allocator_t allocator, int fd) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) signal(signals[i], SIG_DFL);
  alarm(SECONDS);
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  shoal_keyed_rule_t rule = {0};
  const char *text = "";
  shoal_status_t status =
      shoal_rules_discover_here(call, second, executor, allocator, &arena, &rule);
  shoal_rule_t printed = {
      .op = call->op->name, .attrs = call->attrs, .way_count = rule.way_count, .ways = rule.ways};
  if (!status) status = shoal_rule_print(call->op, &printed, &arena, &text);
  if (status) {
    char bytes[2 * SHOAL_STATUS_PACKED_MIN];
    shoal_status_pack(status, bytes, sizeof bytes);
    write_all(fd, "-", 1);
    write_all(fd, bytes, sizeof bytes);
  } else {
    text += strlen(call->op->name) + 1;
    write_all(fd, "+", 1);
    if (rule.note) write_all(fd, rule.note, strlen(rule.note));
    write_all(fd, "\n", 1);
    write_all(fd, text, strlen(text) + 1);
  }
  _exit(0);
}

// ---- the parent --------------------------------------------------------------------------------

// All that the child writes, with a zero behind it.
static shoal_status_t read_all(int fd, shoal_arena_t *arena, char **out_text, size_t *out_size) {
  size_t capacity = 8192, size = 0;
  char *text = shoal_arena_alloc(arena, 1, capacity);
  while (text) {
    ssize_t done = read(fd, text + size, capacity - size - 1);
    if (done <= 0) break;
    size += (size_t)done;
    if (size + 1 < capacity) continue;
    char *wider = shoal_arena_alloc(arena, 1, 2 * capacity);
    if (wider) memcpy(wider, text, size);
    text = wider;
    capacity *= 2;
  }
  *out_text = text;
  *out_size = size;
  return text ? NULL : SHOAL_OOM();
}

static shoal_status_t read_rule(const shoal_call_t *call, char *text, size_t size,
                                shoal_arena_t *arena, shoal_keyed_rule_t *out) {
  char *ways = size > 0 && text[0] == '+' ? strchr(text, '\n') : NULL;
  if (!ways) {
    return size > 1 ? shoal_status_unpack(text + 1, size - 1)
                    : SHOAL_ERROR(INTERNAL, "%s: nothing was found out", call->op->name);
  }
  *ways = 0;
  if (text[1]) out->note = text + 1;
  return shoal_rules_parse_ways(call, ways + 1, arena, out);
}

shoal_status_t shoal_rules_discover_apart(const shoal_call_t *call,
                                          const shoal_rules_second_t *second,
                                          shoal_executor_t executor, shoal_allocator_t allocator,
                                          shoal_arena_t *arena, shoal_keyed_rule_t *out) {
  int ends[2], ended = 0;
  char *text = NULL;
  size_t size = 0;
  if (pipe(ends) != 0) {
    return shoal_rules_discover_here(call, second, executor, allocator, arena, out);
  }
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    find(call, second, executor, allocator, ends[1]);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return shoal_rules_discover_here(call, second, executor, allocator, arena, out);
  }
  shoal_status_t status = read_all(ends[0], arena, &text, &size);
  close(ends[0]);
  while (waitpid(child, &ended, 0) < 0) {
    if (errno != EINTR) break;
  }
  if (status) return status;
  if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) return read_rule(call, text, size, arena, out);
  const int by = WIFSIGNALED(ended) ? WTERMSIG(ended) : 0;
  out->note = by == SIGALRM   ? "executed in parts, it does not end"
              : by == SIGSEGV ? "executed in parts, it crashes (segmentation fault)"
              : by            ? "executed in parts, it crashes"
                              : "executed in parts, it ends the program";
  return NULL;
}
