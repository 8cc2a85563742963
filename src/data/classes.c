// Made-up samples for classifiers. Every number is drawn on its own, by the index of its sample.
#include "base/philox.h"
#include "shoal/data.h"

enum { CLASS_STREAM = 1, NOISE_STREAM = 2, CENTRE_STREAM = 3 };

void shoal_classes_batch(const shoal_classes_t *classes, int64_t cursor, int64_t batch,
                         shoal_dtype_t dtype, void *out_x, int32_t *out_labels) {
  const uint64_t seed = classes->seed;
  for (int64_t i = 0; i < batch; ++i) {
    const uint64_t sample = (uint64_t)(cursor + i);
    const uint32_t word = shoal_philox_word(seed, CLASS_STREAM, 0, sample);
    out_labels[i] = (int32_t)(word % (uint64_t)classes->classes);
    for (int64_t j = 0; j < classes->width; ++j) {
      const uint64_t centre = (uint64_t)(out_labels[i] * classes->width + j);
      const double value =
          shoal_philox_normal(shoal_philox_word(seed, CENTRE_STREAM, 0, centre)) +
          shoal_philox_normal(shoal_philox_word(seed, NOISE_STREAM, sample, (uint64_t)j));
      shoal_dtype_store(dtype, out_x, i * classes->width + j, value);
    }
  }
}
