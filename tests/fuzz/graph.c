// Models as text: states and graphs.
// mutations: 3000
#include "shoal/graph.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  shoal_arena_t *arena = fuzz_arena();
  const shoal_model_options_t options = {.allocator = fuzz_allocator()};
  shoal_model_t *model = NULL, *again = NULL;
  const char *printed, *twice;
  if (fuzz_ok(shoal_model_parse("fuzz", fuzz_text(data, size, arena), &options, &model)) &&
      fuzz_again(shoal_model_verify(model), "a model") &&
      fuzz_ok(shoal_model_print(model, arena, &printed)) &&
      fuzz_again(shoal_model_parse("again", printed, &options, &again), printed) &&
      fuzz_ok(shoal_model_print(again, arena, &twice)))
    fuzz_same(printed, twice);
  shoal_model_free(again);
  shoal_model_free(model);
  shoal_arena_free(arena);
  return 0;
}
