// Lines from pipes to a descriptor, whole ones in one write where they fit into PIPE_BUF, so that
// ranks' lines do not mix.
#include "launch/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// What one step can add: a line buffer of line breaks, each with its prefix, and one break more.
#define STEP_ROOM (SHOAL_RELAY_LINE * SHOAL_RELAY_PREFIX + SHOAL_RELAY_PREFIX)

// ---- sinks ----------------------------------------------------------------------------

// O_NONBLOCK belongs to the open file, which other processes share: a pipe or terminal is opened
// once more. Where that is forbidden, poll() says whether there is room for PIPE_BUF bytes.
void shoal_relay_sink_init(int fd, shoal_relay_sink_t *out_sink) {
  out_sink->fd = out_sink->given = fd;
  out_sink->kind = SHOAL_RELAY_POLLED;
  out_sink->error = 0;
  out_sink->dropping = false;
  out_sink->used = 0;
  struct stat info;
  if (fstat(fd, &info) != 0) return;
  if (S_ISREG(info.st_mode)) out_sink->kind = SHOAL_RELAY_FILE;
  if (S_ISSOCK(info.st_mode)) out_sink->kind = SHOAL_RELAY_SOCKET;
  if (!S_ISFIFO(info.st_mode) && !isatty(fd)) return;
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (own < 0) return;
  out_sink->fd = own;
  out_sink->kind = SHOAL_RELAY_REOPENED;
}

void shoal_relay_sink_deinit(shoal_relay_sink_t *sink) {
  if (sink->fd != sink->given) close(sink->fd);
  sink->fd = sink->given;
}

bool shoal_relay_sink_has_room(const shoal_relay_sink_t *sink) {
  return sizeof sink->text - sink->used >= STEP_ROOM;
}

// How much goes into one write: whole lines, if there are any.
static size_t portion(const shoal_relay_sink_t *sink, size_t start) {
  const size_t size = sink->used - start;
  if (sink->kind == SHOAL_RELAY_FILE || size <= PIPE_BUF) return size;
  const char *end = memrchr(sink->text + start, '\n', PIPE_BUF);
  return end ? (size_t)(end - sink->text) + 1 - start : PIPE_BUF;
}

static ssize_t write_now(const shoal_relay_sink_t *sink, const char *data, size_t size) {
  if (sink->kind == SHOAL_RELAY_SOCKET) return send(sink->fd, data, size, MSG_DONTWAIT);
  struct pollfd room = {.fd = sink->fd, .events = POLLOUT};
  if (sink->kind == SHOAL_RELAY_POLLED && poll(&room, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(sink->fd, data, size);
}

bool shoal_relay_sink_flush(shoal_relay_sink_t *sink) {
  size_t done = 0;
  while (done < sink->used) {
    const ssize_t written = write_now(sink, sink->text + done, portion(sink, done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written <= 0) {  // the children's fate does not depend on it; the launcher's outcome may
      if (!sink->error && errno != EPIPE && errno != EBADF) sink->error = errno;
      done = sink->used;
      break;
    }
    done += (size_t)written;
  }
  memmove(sink->text, sink->text + done, sink->used - done);
  sink->used -= done;
  return done > 0;
}

// There is room: see shoal_relay_step.
static void sink_add(shoal_relay_sink_t *sink, const char *data, size_t size) {
  if (sink->dropping || sizeof sink->text - sink->used < size) return;
  memcpy(sink->text + sink->used, data, size);
  sink->used += size;
}

// ---- relays ---------------------------------------------------------------------------

void shoal_relay_init(int from, shoal_relay_sink_t *to, const char *prefix,
                      shoal_relay_t *out_relay) {
  out_relay->from = from;
  out_relay->to = to;
  out_relay->is_notable = NULL;
  out_relay->noted = false;
  out_relay->broken = false;
  out_relay->used = 0;
  out_relay->last[0] = 0;
  snprintf(out_relay->prefix, sizeof out_relay->prefix, "%s", prefix);
  fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
}

static void remember(shoal_relay_t *relay, const char *line, size_t size) {
  const size_t room = sizeof relay->last - 1;
  if (size > room) {
    line += size - room;
    size = room;
  }
  size_t have = strlen(relay->last);
  size_t drop = 0;  // whole lines from the front, until it fits
  while (have - drop + size > room) {
    const char *end = memchr(relay->last + drop, '\n', have - drop);
    drop = end ? (size_t)(end - relay->last) + 1 : have;
  }
  memmove(relay->last, relay->last + drop, have - drop);
  memcpy(relay->last + have - drop, line, size);
  relay->last[have - drop + size] = 0;
}

// `size` bytes of a line, its line break included or missing.
static void pass_line(shoal_relay_t *relay, const char *line, size_t size) {
  char text[sizeof relay->prefix + SHOAL_RELAY_LINE + 1];
  size_t length = strlen(relay->prefix);
  memcpy(text, relay->prefix, length);
  memcpy(text + length, line, size);
  length += size;
  const bool whole = size > 0 && line[size - 1] == '\n';
  if (!whole) text[length++] = '\n';
  if (relay->is_notable && !relay->broken && relay->is_notable(line, size)) relay->noted = true;
  relay->broken = !whole;
  sink_add(relay->to, text, length);
  remember(relay, text + strlen(relay->prefix), length - strlen(relay->prefix));
}

bool shoal_relay_step(shoal_relay_t *relay) {
  if (relay->from < 0 || !shoal_relay_sink_has_room(relay->to)) return false;
  ssize_t got = read(relay->from, relay->line + relay->used, sizeof relay->line - relay->used);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    shoal_relay_close(relay);
    return false;
  }
  relay->used += (size_t)got;
  size_t start = 0;
  for (;;) {
    const char *end = memchr(relay->line + start, '\n', relay->used - start);
    if (!end) break;
    const size_t next = (size_t)(end - relay->line) + 1;
    pass_line(relay, relay->line + start, next - start);
    start = next;
  }
  if (start == 0 && relay->used == sizeof relay->line) {
    pass_line(relay, relay->line, relay->used);
    start = relay->used;
  }
  memmove(relay->line, relay->line + start, relay->used - start);
  relay->used -= start;
  shoal_relay_sink_flush(relay->to);
  return true;
}

void shoal_relay_close(shoal_relay_t *relay) {
  if (relay->from < 0) return;
  if (relay->used > 0) pass_line(relay, relay->line, relay->used);
  relay->used = 0;
  shoal_relay_sink_flush(relay->to);
  close(relay->from);
  relay->from = -1;
}
