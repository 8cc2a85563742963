// Ways of ops: a line with the op's name, then the way's text, "{a:1, b:0 -> out:sum}".
// mutations: 300
#include "fuzz.h"
#include "shoal/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static shoal_registry_t *registry;
  if (!registry) fuzz_must(shoal_registry_create(shoal_allocator_system(), &registry));
  shoal_arena_t *arena = fuzz_arena();
  char *name = fuzz_text(data, size, arena), *text = fuzz_cut_line(name);
  const shoal_op_t *op;
  shoal_way_t way, again;
  const char *printed, *twice;
  if (fuzz_ok(shoal_op_find(registry, name, &op)) &&
      fuzz_ok(shoal_way_parse(text, op, op->input_count + (op->variadic ? 2 : 0), arena, &way)) &&
      fuzz_ok(shoal_way_print(op, &way, arena, &printed)) &&
      fuzz_again(shoal_way_parse(printed, op, way.input_count, arena, &again), printed) &&
      fuzz_ok(shoal_way_print(op, &again, arena, &twice)))
    fuzz_same(printed, twice);
  shoal_arena_free(arena);
  return 0;
}
