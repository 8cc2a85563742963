// Images as samples: resized, cropped, flipped, normalised, as f32 planes.
#ifndef SHOAL_DATA_IMAGE_H_
#define SHOAL_DATA_IMAGE_H_

#include "base/arena.h"
#include "shoal/data.h"

// Pixels of 8 bits: that of channel c at y, x lies at c * channel_step + y * row_step +
// x * column_step.
typedef struct shoal_image {
  const unsigned char *pixels;
  int64_t channels, height, width;
  int64_t channel_step, row_step, column_step;
} shoal_image_t;

// What is made of them, from the options.
typedef struct shoal_image_plan {
  int64_t channels, height, width;  // of the result
  int64_t resize, pad;
  bool flip, random_crop;
  float mean[3], scale[3];
} shoal_image_plan_t;

// Sizes that the options leave open are those given (0: not known, left 0).
SHOAL_MUST_USE shoal_status_t shoal_image_plan(const shoal_dataset_options_t *options,
                                               int64_t channels, int64_t height, int64_t width,
                                               shoal_image_plan_t *out_plan);
// INVALID_ARGUMENT where an image of that size, resized and padded, is smaller than the crop, or
// crops are to be random and can only be the whole. shoal_image_plan does it where it is given a
// size.
SHOAL_MUST_USE shoal_status_t shoal_image_check_crop(const shoal_image_plan_t *plan, int64_t height,
                                                     int64_t width);
// Writes [channels, height, width] to `out`. The image has as many channels as the plan.
// `scratch` grows to what images need and is cleared each time.
SHOAL_MUST_USE shoal_status_t shoal_image_take(const shoal_image_t *image,
                                               const shoal_image_plan_t *plan,
                                               const shoal_sample_t *sample, shoal_arena_t *scratch,
                                               float *out);

#endif  // SHOAL_DATA_IMAGE_H_
