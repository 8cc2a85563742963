// Relays a child's output: reads a pipe, passes whole lines on with a prefix, remembers the last
// ones.
#ifndef SHOAL_COMM_RELAY_H_
#define SHOAL_COMM_RELAY_H_

#include "shoal/base.h"

#define SHOAL_RELAY_LINE 8192  // longer lines are broken

typedef struct shoal_relay {
  int from, to;     // descriptors; from is -1 once it is closed
  char prefix[16];  // "[3] " or ""
  size_t used;
  int error;        // errno of the first write that failed; a reader that left is none
  char line[SHOAL_RELAY_LINE];
  char last[1024];  // what was passed on last: whole lines, oldest first
} shoal_relay_t;

void shoal_relay_init(int from, int to, const char *prefix, shoal_relay_t *out_relay);
// Takes what there is now; false when there was nothing or the pipe is closed. Does not block.
bool shoal_relay_step(shoal_relay_t *relay);
void shoal_relay_close(shoal_relay_t *relay);  // passes on what is left of a line

#endif  // SHOAL_COMM_RELAY_H_
