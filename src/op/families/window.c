// Windows in global coordinates.
#include "op/families/window.h"

#include "op/families/kernel.h"

static const char *const NAMES[SHOAL_DIRECTIONS] = {"plane", "row", "column"};
// Kernels, strides, paddings and dilations are below it: a product of two fits 64 bits.
#define LARGEST (INT64_C(1) << 31)

shoal_status_t shoal_window_rank(const shoal_call_t *call) {
  const int32_t rank = call->inputs[0].shape.rank;
  REQUIRE_HINT(call, rank >= 3 && rank <= 2 + SHOAL_DIRECTIONS,
               "one example needs N = 1, and one channel C = 1: reshape",
               "%s has %d dim%s, not three to five: [N, C] and one to three dims behind them",
               call->op->inputs[0], rank, rank == 1 ? "" : "s");
  return NULL;
}

static shoal_status_t read_numbers(const shoal_call_t *call, int32_t dims, int32_t attr,
                                   int64_t least, int64_t out_values[SHOAL_DIRECTIONS]) {
  const shoal_attr_value_t *value = &call->attrs[attr];
  const shoal_attr_schema_t *schema = &call->op->attrs[attr];
  if (schema->optional && value->count == 0) return NULL;
  REQUIRE(call, value->count == dims, "%s needs %d numbers, one for each dim behind [N, C], not %d",
          schema->name, dims, value->count);
  for (int32_t i = 0; i < dims; ++i) {
    REQUIRE(call, value->ints[i] >= least, "%s must be at least %lld, not %lld (entry %d)",
            schema->name, (long long)least, (long long)value->ints[i], i);
    REQUIRE(call, value->ints[i] < LARGEST, "%s must be below 2^31, not %lld (entry %d)",
            schema->name, (long long)value->ints[i], i);
    out_values[SHOAL_DIRECTIONS - dims + i] = value->ints[i];
  }
  return NULL;
}

shoal_status_t shoal_window_read(const shoal_call_t *call, int32_t dims, const int64_t *kernel,
                                 int32_t stride, int32_t padding, int32_t dilation,
                                 shoal_window_t *out_window) {
  *out_window = (shoal_window_t){
      .dims = dims, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
  for (int32_t i = 0; i < dims; ++i) {
    REQUIRE(call, kernel[i] >= 1, "the kernel has %lld elements along its dim %d: it is empty",
            (long long)kernel[i], i);
    REQUIRE(call, kernel[i] < LARGEST,
            "the kernel has %lld elements along its dim %d: 2^31 or more", (long long)kernel[i], i);
    out_window->kernel[SHOAL_DIRECTIONS - dims + i] = kernel[i];
  }
  SHOAL_RETURN_IF_ERROR(read_numbers(call, dims, stride, 1, out_window->stride));
  SHOAL_RETURN_IF_ERROR(read_numbers(call, dims, padding, 0, out_window->padding));
  if (dilation < 0) return NULL;
  return read_numbers(call, dims, dilation, 1, out_window->dilation);
}

// Elements from the first tap of a window to its last, both counted.
static int64_t reach_of(const shoal_window_t *window, int32_t i) {
  return window->dilation[i] * (window->kernel[i] - 1) + 1;
}

shoal_status_t shoal_pool_window(const shoal_call_t *call, int32_t kernel, int32_t stride,
                                 int32_t padding, int32_t dilation, shoal_window_t *out_window) {
  shoal_shape_t size;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, call->input_count));
  SHOAL_RETURN_IF_ERROR(shoal_window_rank(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, kernel, &size));
  const int32_t dims = call->inputs[0].shape.rank - 2;
  REQUIRE(call, size.rank == dims,
          "kernel needs %d numbers, one for each dim behind [N, C], not %d", dims, size.rank);
  SHOAL_RETURN_IF_ERROR(
      shoal_window_read(call, dims, size.dims, stride, padding, dilation, out_window));
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const int64_t reach = reach_of(out_window, i);
    REQUIRE_HINT(call, 2 * out_window->padding[i] <= reach,
                 "a window would lie in the padding alone; shoal_pad makes wider borders",
                 "padding %lld is more than half of the kernel's %lld",
                 (long long)out_window->padding[i], (long long)reach);
  }
  return NULL;
}

int64_t shoal_window_count(const shoal_window_t *window, int32_t i, int64_t size) {
  const int64_t room = size + 2 * window->padding[i] - reach_of(window, i);
  if (room < 0) return 0;
  if (!window->ceil) return room / window->stride[i] + 1;
  const int64_t count = (room + window->stride[i] - 1) / window->stride[i] + 1;
  return (count - 1) * window->stride[i] < size + window->padding[i] ? count : count - 1;
}

static shoal_status_t check_fit(const shoal_call_t *call, const shoal_window_t *window,
                                const shoal_shape_t *whole) {
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const int64_t reach = reach_of(window, i), size = shoal_window_size(whole, i);
    REQUIRE_HINT(call, reach <= size + 2 * window->padding[i],
                 "pad more, take a smaller kernel or dilation, or a larger input",
                 "the kernel spans %lld %ss, but x has %lld and %lld of padding", (long long)reach,
                 NAMES[i], (long long)size, 2 * (long long)window->padding[i]);
  }
  return NULL;
}

static int64_t global_index(const shoal_place_t *place, int32_t dim, int64_t i) {
  return dim >= 2 && place->index[dim] ? place->index[dim][i] : i;
}

static int64_t local_tap(const shoal_place_t *place, int32_t dim, int64_t global) {
  if (dim < 2) return global == 0 ? 0 : SHOAL_TAP_NONE;
  if (global < 0 || global >= place->whole.dims[dim]) return SHOAL_TAP_NONE;
  const int64_t local = shoal_place_local(place, dim, global);
  return local < 0 ? SHOAL_TAP_MISSING : local;
}

// The result's shape: its first two dims are given, the others are as many windows as fit.
static void fit_shape(const shoal_window_t *window, const shoal_shape_t *input,
                      shoal_shape_t *shape) {
  shape->rank = input->rank;
  for (int32_t i = SHOAL_DIRECTIONS - window->dims; i < SHOAL_DIRECTIONS; ++i) {
    shape->dims[shoal_window_dim(input, i)] =
        shoal_window_count(window, i, shoal_window_size(input, i));
  }
}

void shoal_window_complete(const shoal_window_t *window, const shoal_shape_t *input,
                           int64_t channels, shoal_attr_value_t *value) {
  if (value->count != 0) return;
  shoal_shape_t shape = {.dims = {input->dims[0], channels}};
  fit_shape(window, input, &shape);
  value->count = shape.rank;
  for (int32_t d = 0; d < shape.rank; ++d) value->ints[d] = shape.dims[d];
}

shoal_status_t shoal_window_places(const shoal_call_t *call, const shoal_window_t *window,
                                   int32_t sizes, int32_t place_input, int32_t place_output,
                                   shoal_shape_t *shape, shoal_place_t *out_input,
                                   shoal_place_t *out_output) {
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, place_input, &call->inputs[0].shape, out_input));
  SHOAL_RETURN_IF_ERROR(check_fit(call, window, &out_input->whole));
  shoal_shape_t fit = *shape, given;
  fit_shape(window, &out_input->whole, &fit);
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, sizes, &given));
  if (given.rank == 0) given = fit;
  REQUIRE(call,
          given.rank == fit.rank && given.dims[0] == fit.dims[0] && given.dims[1] == fit.dims[1],
          "shape must be [%lld, %lld] and %d dims more", (long long)fit.dims[0],
          (long long)fit.dims[1], window->dims);
  *shape = given;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, place_output, shape, out_output));
  for (int32_t d = 2; d < fit.rank; ++d) {
    REQUIRE(call, out_output->whole.dims[d] <= fit.dims[d],
            "shape asks for %lld windows along dim %d, where %lld fit",
            (long long)out_output->whole.dims[d], d, (long long)fit.dims[d]);
  }
  return NULL;
}

int64_t shoal_window_inputs(const shoal_window_t *window, int32_t i, const shoal_place_t *input,
                            const shoal_place_t *output, int64_t *inputs) {
  const int32_t dim = shoal_window_dim(&output->part, i);
  int64_t missing = -1;
  for (int64_t o = 0; o < shoal_window_size(&output->part, i); ++o) {
    const int64_t first = global_index(output, dim, o) * window->stride[i] - window->padding[i];
    for (int64_t tap = 0; tap < window->kernel[i]; ++tap, ++inputs) {
      const int64_t global = first + tap * window->dilation[i];
      *inputs = local_tap(input, dim, global);
      if (*inputs == SHOAL_TAP_MISSING && missing < 0) missing = global;
    }
  }
  return missing;
}

// outputs[x * kernel + tap]: position in the output's part of the window that sees x through that
// tap. Returns the first index that is missing, or -1.
static int64_t outputs_of(const shoal_window_t *window, int32_t i, const shoal_place_t *input,
                          const shoal_place_t *output, int64_t *outputs) {
  const int32_t dim = shoal_window_dim(&input->part, i);
  int64_t missing = -1;
  for (int64_t x = 0; x < shoal_window_size(&input->part, i); ++x) {
    const int64_t at = global_index(input, dim, x) + window->padding[i];
    for (int64_t tap = 0; tap < window->kernel[i]; ++tap, ++outputs) {
      const int64_t from = at - tap * window->dilation[i];
      *outputs = SHOAL_TAP_NONE;
      if (from < 0 || from % window->stride[i] != 0) continue;
      *outputs = local_tap(output, dim, from / window->stride[i]);
      if (*outputs == SHOAL_TAP_MISSING && missing < 0) missing = from / window->stride[i];
    }
  }
  return missing;
}

shoal_status_t shoal_window_check(const shoal_call_t *call, int32_t i, const char *what,
                                  int64_t missing) {
  if (missing < 0) return NULL;
  return shoal_op_blame(
      call, SHOAL_ERROR(MISMATCH, "needs %s %lld of %s, which this part does not hold", NAMES[i],
                        (long long)missing, what));
}

// ---- tables -------------------------------------------------------------------------

int64_t shoal_taps_bytes(const shoal_shape_t *shape, const int64_t *kernel) {
  int64_t entries = SHOAL_DIRECTIONS;  // those that have no dim
  for (int32_t d = 2; d < shape->rank; ++d) entries += shape->dims[d] * kernel[d - 2];
  const int64_t runs = shape->rank > 2 ? kernel[shape->rank - 3] : 0;
  return shoal_align64(entries * (int64_t)sizeof(int64_t) + runs * (int64_t)sizeof(shoal_run_t));
}

shoal_taps_t shoal_taps_at(const shoal_shape_t *shape, const shoal_window_t *window,
                           void *workspace) {
  shoal_taps_t taps;
  int64_t *table = workspace;
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    taps.kernel[i] = window->kernel[i];
    taps.table[i] = table;
    table += shoal_window_size(shape, i) * window->kernel[i];
  }
  taps.runs = (shoal_run_t *)table;
  return taps;
}

// Finds the runs of the last direction's taps in a table for `size` elements.
static void find_runs(const shoal_taps_t *taps, int64_t size) {
  const int64_t kernel = taps->kernel[SHOAL_DIRECTIONS - 1];
  const int64_t *table = taps->table[SHOAL_DIRECTIONS - 1];
  for (int64_t t = 0; t < kernel; ++t) {
    shoal_run_t run = {.regular = true, .gap = 1, .step = 1};
    for (int64_t i = 0; i < size && run.regular; ++i) {
      const int64_t at = table[i * kernel + t];
      if (at < 0) continue;
      if (run.count == 0) run.first = i, run.from = at;
      if (run.count == 1) run.gap = i - run.first, run.step = at - run.from;
      run.regular = i == run.first + run.count * run.gap && at == run.from + run.count * run.step;
      ++run.count;
    }
    taps->runs[t] = run;
  }
}

shoal_status_t shoal_taps_inputs(const shoal_call_t *call, const shoal_window_t *window,
                                 const shoal_place_t *x, const shoal_place_t *output,
                                 const shoal_taps_t *taps) {
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const int64_t missing = shoal_window_inputs(window, i, x, output, taps->table[i]);
    SHOAL_RETURN_IF_ERROR(shoal_window_check(call, i, "x", missing));
  }
  find_runs(taps, shoal_window_size(&output->part, SHOAL_DIRECTIONS - 1));
  return NULL;
}

shoal_status_t shoal_taps_outputs(const shoal_call_t *call, const shoal_window_t *window,
                                  const shoal_place_t *x, const shoal_place_t *dy,
                                  const shoal_taps_t *taps) {
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const int64_t missing = outputs_of(window, i, x, dy, taps->table[i]);
    SHOAL_RETURN_IF_ERROR(shoal_window_check(call, i, "dy", missing));
  }
  find_runs(taps, shoal_window_size(&x->part, SHOAL_DIRECTIONS - 1));
  return NULL;
}
