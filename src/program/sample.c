// Ranks and micro-batches that stand for others.
#include "program/program_impl.h"

shoal_status_t shoal_bind_sample(const shoal_program_t *program, const shoal_class_t *class,
                                 const shoal_instruction_t *in, bool loop, shoal_arena_t *arena,
                                 shoal_samples_t *out_samples) {
  (void)in;
  const int64_t micros = loop ? program->micro : 1;
  SHOAL_VEC(shoal_sample_t) list = {0};
  for (int64_t i = 0; i < class->rank_count; ++i) {
    for (int64_t m = 0; m < micros; ++m) {
      if (m > 2 && m < micros - 2) continue;
      shoal_sample_t sample = {class->ranks[i], loop ? m : -1};
      if (!SHOAL_PUSH(arena, &list, sample)) return SHOAL_OOM();
    }
  }
  *out_samples = (shoal_samples_t){list.count, list.items};
  return NULL;
}
