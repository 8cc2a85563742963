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
  // A call without optional inputs, its attributes as they are by default.
  shoal_attr_value_t attrs[64];
  if (fuzz_ok(shoal_op_find(registry, name, &op)) && op->attr_count <= 64) {
    const int32_t inputs = op->input_count - op->optional + (op->variadic ? 2 : 0);
    for (int32_t i = 0; i < op->attr_count; ++i) attrs[i] = op->attrs[i].fallback;
    if (fuzz_ok(shoal_way_parse(text, op, attrs, inputs, arena, &way)) &&
        fuzz_ok(shoal_way_print(op, attrs, &way, arena, &printed)) &&
        fuzz_again(shoal_way_parse(printed, op, attrs, inputs, arena, &again), printed) &&
        fuzz_ok(shoal_way_print(op, attrs, &again, arena, &twice)))
      fuzz_same(printed, twice);
  }
  shoal_arena_free(arena);
  return 0;
}
