// See image.h. Resizing is bilinear, with a triangle as wide as a pixel of the result where that is
// the larger one (as PIL does and torch's interpolate with antialias): no pixel is skipped.
#include "data/image.h"

#include <math.h>

#include "base/number.h"
#include "base/philox.h"
#include "base/status.h"
#include "data/kinds.h"

enum { FLIP_STREAM = 32, TOP_STREAM = 33, LEFT_STREAM = 34 };
enum { MOST_SIDE = 16384 };

// The size to resize to: the shorter side as asked, else just so that the crop fits.
static void resized_size(int64_t h, int64_t w, const shoal_image_plan_t *plan, int64_t *out_height,
                         int64_t *out_width) {
  *out_height = h;
  *out_width = w;
  if (plan->resize > 0) {
    const int64_t shorter = shoal_min64(h, w);
    *out_height = shoal_max64(1, h * plan->resize / shorter);
    *out_width = shoal_max64(1, w * plan->resize / shorter);
  } else if (h != plan->height || w != plan->width) {
    const bool by_height = plan->height * w >= plan->width * h;  // the larger of the two factors
    *out_height = by_height ? plan->height : shoal_max64(1, h * plan->width / w);
    *out_width = by_height ? shoal_max64(1, w * plan->height / h) : plan->width;
  }
}

shoal_status_t shoal_image_check_crop(const shoal_image_plan_t *plan, int64_t height,
                                      int64_t width) {
  int64_t resized_height, resized_width;
  resized_size(height, width, plan, &resized_height, &resized_width);
  if (resized_height + 2 * plan->pad < plan->height || resized_width + 2 * plan->pad < plan->width)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "resize to a larger side, or leave it out",
                            "images of %lld x %lld pixels are resized to %lld x %lld, of which no "
                            "%lld x %lld can be cropped",
                            (long long)height, (long long)width, (long long)resized_height,
                            (long long)resized_width, (long long)plan->height,
                            (long long)plan->width);
  if (!plan->random_crop || plan->pad > 0 || plan->resize > 0) return NULL;
  if (resized_height > plan->height || resized_width > plan->width) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "pad gives it room, or resize to a larger side",
                          "random_crop has no effect: images of %lld x %lld pixels are resized to "
                          "%lld x %lld, and all of that is taken",
                          (long long)height, (long long)width, (long long)plan->height,
                          (long long)plan->width);
}

shoal_status_t shoal_image_plan(const shoal_dataset_options_t *options, int64_t channels,
                                int64_t height, int64_t width, shoal_image_plan_t *out_plan) {
  const int64_t stored_height = height, stored_width = width;
  const shoal_column_t *x = shoal_data_input(options, "x");
  if (x && x->shape.rank == 3) {  // what the model takes
    channels = channels > 0 ? channels : x->shape.dims[0];
    height = x->shape.dims[1];
    width = x->shape.dims[2];
  }
  *out_plan = (shoal_image_plan_t){
      .channels = channels,
      .height = options->height > 0 ? options->height : height,
      .width = options->width > 0 ? options->width : width,
      .resize = options->resize,
      .pad = options->pad,
      .flip = options->flip,
      .random_crop = options->random_crop || options->pad > 0,
  };
  const int64_t sides[] = {options->height, options->width,   options->resize,
                           options->pad,    out_plan->height, out_plan->width};
  for (int i = 0; i < 6; ++i)
    if (sides[i] < 0 || sides[i] > MOST_SIDE)
      return SHOAL_ERROR(INVALID_ARGUMENT, "images of %lld pixels a side; the most is %d",
                         (long long)sides[i], MOST_SIDE);
  for (int c = 0; c < 3; ++c) {
    const double deviation = options->deviation[c] != 0 ? options->deviation[c] : 1;
    out_plan->mean[c] = (float)options->mean[c];
    out_plan->scale[c] = (float)(1 / deviation);
  }
  return stored_height > 0 ? shoal_image_check_crop(out_plan, stored_height, stored_width) : NULL;
}

// ---- weights --------------------------------------------------------------------------

// Of one side: result i is the sum of weights[i * taps + k] times pixel first[i] + k; outside of
// the image, where it is padded, all weights are zero.
typedef struct side {
  int64_t size, resized, count;  // of the image; as it is resized; results
  double step, reach;            // of a result, in pixels of the image; how far it looks
  int64_t taps;
  int64_t *first;
  float *weights;
} side_t;

static side_t make_side(int64_t size, int64_t resized, int64_t count) {
  side_t side = {.size = size, .resized = resized, .count = count};
  side.step = (double)size / (double)resized;
  side.reach = side.step > 1 ? side.step : 1;
  side.taps = shoal_min64(size, (int64_t)ceil(2 * side.reach) + 1);
  return side;
}

// The results from `start` of the resized side on.
static void weigh(side_t *side, int64_t start) {
  for (int64_t i = 0; i < side->count; ++i) {
    const int64_t at = start + i;
    if (at < 0 || at >= side->resized) continue;
    const double centre = ((double)at + 0.5) * side->step;
    const int64_t low = shoal_max64(0, (int64_t)(centre - side->reach + 0.5));
    side->first[i] = shoal_min64(low, side->size - side->taps);
    float *weights = side->weights + i * side->taps;
    double sum = 0;
    for (int64_t k = 0; k < side->taps; ++k) {
      const double away = fabs((double)(side->first[i] + k) + 0.5 - centre) / side->reach;
      weights[k] = away < 1 ? (float)(1 - away) : 0;
      sum += weights[k];
    }
    for (int64_t k = 0; k < side->taps; ++k) weights[k] = (float)(weights[k] / sum);
  }
}

// Room for both sides and `rows` floats in one piece: images of one size need no more later on.
static shoal_status_t make_room(side_t *down, side_t *along, int64_t rows, shoal_arena_t *scratch,
                                float **out_rows) {
  shoal_arena_clear(scratch);
  const int64_t floats = down->count * down->taps + along->count * along->taps + rows;
  down->first = shoal_arena_alloc(scratch, (size_t)(2 * (down->count + along->count) + floats),
                                  sizeof(float));
  if (!down->first) return SHOAL_OOM();
  along->first = down->first + down->count;
  down->weights = (float *)(along->first + along->count);
  along->weights = down->weights + down->count * down->taps;
  *out_rows = along->weights + along->count * along->taps;
  return NULL;
}

// ---- one image ------------------------------------------------------------------------

// Where the crop begins along a side; where there is nothing to choose, in the middle.
static int64_t crop_start(const shoal_image_plan_t *plan, const shoal_sample_t *sample,
                          uint64_t stream, int64_t resized, int64_t wanted) {
  const int64_t spare = resized + 2 * plan->pad - wanted;
  if (!plan->random_crop || !sample->varied || spare <= 0) return (resized - wanted + 1) / 2;
  const uint32_t word =
      shoal_philox_word(sample->seed, stream, (uint64_t)sample->epoch, (uint64_t)sample->index);
  return (int64_t)(word % (uint64_t)(spare + 1)) - plan->pad;
}

shoal_status_t shoal_image_take(const shoal_image_t *image, const shoal_image_plan_t *plan,
                                const shoal_sample_t *sample, shoal_arena_t *scratch, float *out) {
  int64_t height, width;
  if (plan->resize > 0)  // else they fit; and those of other sizes may leave nothing to choose
    SHOAL_RETURN_IF_ERROR(shoal_image_check_crop(plan, image->height, image->width));
  resized_size(image->height, image->width, plan, &height, &width);
  const int64_t top = crop_start(plan, sample, TOP_STREAM, height, plan->height),
                left = crop_start(plan, sample, LEFT_STREAM, width, plan->width);
  const bool flip = plan->flip && sample->varied &&
                    (shoal_philox_word(sample->seed, FLIP_STREAM, (uint64_t)sample->epoch,
                                       (uint64_t)sample->index) &
                     1);
  side_t down = make_side(image->height, height, plan->height),
         along = make_side(image->width, width, plan->width);
  float *rows = NULL;  // first along the rows of the image, then down: [image height, plan width]
  SHOAL_RETURN_IF_ERROR(make_room(&down, &along, image->height * plan->width, scratch, &rows));
  weigh(&down, top);
  weigh(&along, left);
  for (int64_t c = 0; c < plan->channels; ++c) {
    const unsigned char *plane = image->pixels + c * image->channel_step;
    for (int64_t y = 0; y < image->height; ++y) {
      for (int64_t x = 0; x < plan->width; ++x) {
        const unsigned char *from =
            plane + y * image->row_step + along.first[x] * image->column_step;
        float sum = 0;
        for (int64_t k = 0; k < along.taps; ++k)
          sum += along.weights[x * along.taps + k] * (float)from[k * image->column_step];
        rows[y * plan->width + x] = sum;
      }
    }
    for (int64_t y = 0; y < plan->height; ++y) {
      for (int64_t x = 0; x < plan->width; ++x) {
        float sum = 0;
        for (int64_t k = 0; k < down.taps; ++k)
          sum += down.weights[y * down.taps + k] * rows[(down.first[y] + k) * plan->width + x];
        const int64_t to = flip ? plan->width - 1 - x : x;
        out[(c * plan->height + y) * plan->width + to] =
            (sum / 255.0f - plan->mean[c % 3]) * plan->scale[c % 3];
      }
    }
  }
  return NULL;
}
