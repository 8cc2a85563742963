// Lines from a pipe to a descriptor, one write each, so that ranks' lines do not mix.
#include "comm/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void shoal_relay_init(int from, int to, const char *prefix, shoal_relay_t *out_relay) {
  out_relay->from = from;
  out_relay->to = to;
  out_relay->used = 0;
  out_relay->error = 0;
  out_relay->last[0] = 0;
  snprintf(out_relay->prefix, sizeof out_relay->prefix, "%s", prefix);
  fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
}

static void write_all(shoal_relay_t *relay, const char *data, size_t size) {
  while (size > 0) {
    ssize_t written = write(relay->to, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {  // the children's fate does not depend on it; the launcher's outcome may
      if (!relay->error && errno != EPIPE && errno != EBADF) relay->error = errno;
      return;
    }
    data += written;
    size -= (size_t)written;
  }
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
  if (size == 0 || line[size - 1] != '\n') text[length++] = '\n';
  write_all(relay, text, length);
  remember(relay, text + strlen(relay->prefix), length - strlen(relay->prefix));
}

bool shoal_relay_step(shoal_relay_t *relay) {
  if (relay->from < 0) return false;
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
  return true;
}

void shoal_relay_close(shoal_relay_t *relay) {
  if (relay->from < 0) return;
  if (relay->used > 0) pass_line(relay, relay->line, relay->used);
  relay->used = 0;
  close(relay->from);
  relay->from = -1;
}
