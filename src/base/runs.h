// Runs: numbers 0 to count - 1 in groups of neighbours that are in the same state. What is done to
// a stretch of numbers is done once for each run in it, and writing to a stretch makes it one run:
// a walk costs as much as there are changes, however finely the line is cut.
//
// A run is known by its first number. Who keeps a state by number keeps it there; a split says of
// which run the new one's is to be a copy.
#ifndef SHOAL_BASE_RUNS_H_
#define SHOAL_BASE_RUNS_H_

#include <stdbool.h>

#include "base/arena.h"

typedef struct shoal_runs {
  int64_t count;
  int64_t *ends;     // by first number: behind the last of the run
  uint64_t *firsts;  // a bit by number: is it the first of a run?
} shoal_runs_t;

// All numbers are one run. False: out of memory.
bool shoal_runs_init(shoal_arena_t *arena, int64_t count, shoal_runs_t *out_runs);
void shoal_runs_reset(shoal_runs_t *runs);
// The run that a number is in.
int64_t shoal_runs_find(const shoal_runs_t *runs, int64_t number);
// Makes a number the first of a run. Returns the run it was in, whose state it must get; -1: it was
// the first of one, or is `count`.
int64_t shoal_runs_split(shoal_runs_t *runs, int64_t number);
// Makes one run of [from, to), where runs begin at both.
void shoal_runs_join(shoal_runs_t *runs, int64_t from, int64_t to);

#endif  // SHOAL_BASE_RUNS_H_
