// Random cases, "seed=7 ranks=4 ...", and example calls of ops: a line with the op's name, then
// "f64[3,4] ; axis=1".
// mutations: 150
#include "op/case.h"
#include "explore/random_case.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static shoal_registry_t *registry;
  if (!registry) fuzz_must(shoal_registry_create(shoal_allocator_system(), &registry));
  shoal_arena_t *arena = fuzz_arena();
  char *text = fuzz_text(data, size, arena);
  shoal_random_case_t random, again;
  const char *printed, *twice;
  if (fuzz_ok(shoal_random_case_parse(text, registry, arena, &random)) &&
      fuzz_ok(shoal_random_case_print(&random, arena, &printed)) &&
      fuzz_again(shoal_random_case_parse(printed, registry, arena, &again), printed) &&
      fuzz_ok(shoal_random_case_print(&again, arena, &twice)))
    fuzz_same(printed, twice);
  char *example = fuzz_cut_line(text);
  const shoal_op_t *op;
  shoal_case_t call;
  if (fuzz_ok(shoal_op_find(registry, text, &op)))
    fuzz_ok(shoal_case_parse(op, example, arena, &call));
  shoal_arena_free(arena);
  return 0;
}
