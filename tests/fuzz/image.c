// PNG and JPEG images, and what is made of them.
// mutations: 800
#include "data/decode.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  shoal_arena_t *arena = fuzz_arena(), *scratch = fuzz_arena();
  for (int64_t channels = 1; channels <= 3; channels += 2) {
    shoal_image_t image;
    if (!fuzz_ok(shoal_image_decode("fuzz", data, (int64_t)size, channels, arena, &image)))
      continue;
    const shoal_image_plan_t plan = {.channels = channels, .height = 3, .width = 5};
    float out[3 * 3 * 5];
    fuzz_ok(shoal_image_take(&image, &plan, &(shoal_sample_t){0}, scratch, out));
  }
  shoal_arena_free(scratch);
  shoal_arena_free(arena);
  return 0;
}
