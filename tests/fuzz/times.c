// Files of measured times, for the simulator.
// mutations: 20000
#include "fuzz.h"
#include "shoal/simulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  shoal_arena_t *arena = fuzz_arena();
  shoal_times_t *times = NULL;
  fuzz_ok(shoal_times_parse("fuzz", fuzz_text(data, size, arena), fuzz_allocator(), &times));
  shoal_times_free(times);
  shoal_arena_free(arena);
  return 0;
}
