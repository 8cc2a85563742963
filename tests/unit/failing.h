// Allocations that fail on purpose, one after the other.
#ifndef SHOAL_TESTS_FAILING_H_
#define SHOAL_TESTS_FAILING_H_

#include "base/failing.h"
#include "unit/unit.h"

// Takes all its memory from the allocator, frees all of it, and says how it went.
typedef shoal_status_t (*failing_fn_t)(shoal_allocator_t allocator, void *context);

// Without a failure the function succeeds; with the Nth allocation failing, for every N, it returns
// OUT_OF_MEMORY; nothing ever stays allocated. `tries` 0: every N; else about so many, spread
// evenly. Returns how many allocations it makes.
static inline int64_t check_failing_allocations(failing_fn_t function, void *context,
                                                int64_t tries) {
  shoal_failing_t counter = {0};
  assert_ok(function(shoal_allocator_failing(&counter), context));
  assert_int_equal(counter.live_blocks, 0);
  const int64_t calls = counter.calls, stride = tries ? calls / tries + 1 : 1;
  for (int64_t n = 1; n <= calls; n += stride) {
    shoal_failing_t failing = {.fail_at = n};
    shoal_status_t status = function(shoal_allocator_failing(&failing), context);
    if (shoal_status_code(status) != SHOAL_OUT_OF_MEMORY) {
      fail_msg("allocation %lld of %lld fails: %s", (long long)n, (long long)calls,
               status ? shoal_status_message(status) : "nobody noticed");
    }
    shoal_status_free(status);
    if (failing.live_blocks) {
      fail_msg("allocation %lld of %lld fails: %lld blocks are lost", (long long)n,
               (long long)calls, (long long)failing.live_blocks);
    }
  }
  return calls;
}

#endif  // SHOAL_TESTS_FAILING_H_
