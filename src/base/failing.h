// An allocator that counts, and fails on purpose: wraps another one. Tests make the Nth allocation
// fail and then look for leaks; budgets read `calls` and `peak_bytes`. Safe to share between
// threads.
#ifndef SHOAL_BASE_FAILING_H_
#define SHOAL_BASE_FAILING_H_

#include <stdatomic.h>

#include "shoal/base.h"

typedef struct shoal_failing {
  shoal_allocator_t inner;      // all zero: the system's
  _Atomic int64_t fail_at;      // this call (the first is 1) returns NULL; 0: none does
  _Atomic int64_t calls;        // allocations asked for, failed ones included
  _Atomic int64_t live_blocks;  // not yet freed
  _Atomic int64_t live_bytes;
  _Atomic int64_t peak_bytes;
} shoal_failing_t;

// `state` is the caller's, starts zeroed (but for inner, fail_at) and must outlive every block.
shoal_allocator_t shoal_allocator_failing(shoal_failing_t *state);

#endif  // SHOAL_BASE_FAILING_H_
