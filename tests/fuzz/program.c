// Programs as text. What parses may be wrong: the static check then says so.
// mutations: 1000
#include "shoal/program.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static shoal_registry_t *registry;
  if (!registry) fuzz_must(shoal_registry_create(shoal_allocator_system(), &registry));
  shoal_arena_t *arena = fuzz_arena();
  const shoal_allocator_t allocator = fuzz_allocator();
  shoal_program_t *program = NULL, *again = NULL;
  const char *printed, *twice;
  char *text = fuzz_text(data, size, arena);
  if (fuzz_ok(shoal_program_parse("fuzz", text, registry, allocator, &program)) &&
      fuzz_ok(shoal_program_print(program, arena, &printed)) &&
      fuzz_again(shoal_program_parse("again", printed, registry, allocator, &again), printed) &&
      fuzz_ok(shoal_program_print(again, arena, &twice))) {
    fuzz_same(printed, twice);
    if (program->world <= 8 && program->micro <= 8)
      fuzz_ok(shoal_program_check(program, allocator));
  }
  shoal_program_free(again);
  shoal_program_free(program);
  shoal_arena_free(arena);
  return 0;
}
