// Forwards the children's output: reads their pipes, writes whole lines with a prefix, and
// remembers the last ones. Nothing here blocks: output that its reader does not take waits in a
// buffer, the sink. While a sink is full its pipes are not read, so that the children wait and the
// launcher does not.
#ifndef SHOAL_LAUNCH_RELAY_H_
#define SHOAL_LAUNCH_RELAY_H_

#include "shoal/base.h"

#define SHOAL_RELAY_LINE 8192  // longer lines are broken
#define SHOAL_RELAY_PREFIX 16
#define SHOAL_RELAY_SINK (2 * SHOAL_RELAY_LINE * SHOAL_RELAY_PREFIX)

// Where lines go: one per file, also when stdout and stderr are the same.
typedef struct shoal_relay_sink {
  int fd;  // to write to: `given`, or the same file opened again so as not to block
  int given;
  enum { SHOAL_RELAY_FILE, SHOAL_RELAY_SOCKET, SHOAL_RELAY_POLLED, SHOAL_RELAY_REOPENED } kind;
  int error;      // errno of the first write that failed; a reader that left is none
  bool dropping;  // nobody waits for the reader any more
  size_t used;
  char text[SHOAL_RELAY_SINK];
} shoal_relay_sink_t;

void shoal_relay_sink_init(int fd, shoal_relay_sink_t *out_sink);
void shoal_relay_sink_deinit(shoal_relay_sink_t *sink);
// Writes what the reader takes now; false when it took nothing. Does not block.
bool shoal_relay_sink_flush(shoal_relay_sink_t *sink);
// Says whether a relay can read without losing output.
bool shoal_relay_sink_has_room(const shoal_relay_sink_t *sink);

typedef struct shoal_relay {
  int from;  // descriptor; -1 once it is closed
  shoal_relay_sink_t *to;
  char prefix[SHOAL_RELAY_PREFIX];                    // "[3] " or ""
  bool (*is_notable)(const char *line, size_t size);  // NULL: none is
  bool noted;                                         // such a line has passed
  bool broken;                                        // what comes next continues a line
  size_t used;
  char line[SHOAL_RELAY_LINE];
  char last[1024];  // what was passed on last: whole lines, oldest first
} shoal_relay_t;

void shoal_relay_init(int from, shoal_relay_sink_t *to, const char *prefix,
                      shoal_relay_t *out_relay);
// Takes what there is now; false when there was nothing, the pipe is closed or the sink is full.
// Does not block.
bool shoal_relay_step(shoal_relay_t *relay);
void shoal_relay_close(shoal_relay_t *relay);  // passes on what is left of a line

#endif  // SHOAL_LAUNCH_RELAY_H_
