// Windows in global coordinates.
#include "op/families/window.h"

#include "op/families/kernel.h"

static shoal_status_t read_pair(const shoal_call_t *call, int32_t attr, int64_t least,
                                int64_t out_values[2]) {
  const shoal_attr_value_t *value = &call->attrs[attr];
  const char *name = call->op->attrs[attr].name;
  REQUIRE(call, value->count == 2, "%s needs two numbers (rows, columns), not %d", name,
          value->count);
  for (int32_t i = 0; i < 2; ++i) {
    REQUIRE(call, value->ints[i] >= least && value->ints[i] < INT32_MAX,
            "%s must be at least %lld, not %lld", name, (long long)least,
            (long long)value->ints[i]);
    out_values[i] = value->ints[i];
  }
  return NULL;
}

shoal_status_t shoal_window_read(const shoal_call_t *call, int64_t rows, int64_t columns,
                                 int32_t stride, int32_t padding, int32_t dilation,
                                 shoal_window_t *out_window) {
  *out_window = (shoal_window_t){.kernel = {rows, columns}, .dilation = {1, 1}};
  REQUIRE(call, rows >= 1 && columns >= 1, "the kernel is empty");
  SHOAL_RETURN_IF_ERROR(read_pair(call, stride, 1, out_window->stride));
  SHOAL_RETURN_IF_ERROR(read_pair(call, padding, 0, out_window->padding));
  if (dilation < 0) return NULL;
  return read_pair(call, dilation, 1, out_window->dilation);
}

static int64_t reach_of(const shoal_window_t *window, int32_t i) {
  return window->dilation[i] * (window->kernel[i] - 1) + 1;
}

shoal_status_t shoal_window_fits(const shoal_call_t *call, const shoal_window_t *window,
                                 const shoal_shape_t *whole) {
  for (int32_t i = 0; i < 2; ++i) {
    const int64_t reach = reach_of(window, i), size = whole->dims[2 + i];
    REQUIRE(call, reach <= size + 2 * window->padding[i],
            "the kernel spans %lld %s, but x has %lld and %lld of padding", (long long)reach,
            i ? "columns" : "rows", (long long)size, 2 * (long long)window->padding[i]);
  }
  return NULL;
}

int64_t shoal_window_count(const shoal_window_t *window, int32_t i, const shoal_attr_value_t *given,
                           int64_t size) {
  if (given->i >= 0) return given->i;
  const int64_t room = size + 2 * window->padding[i] - reach_of(window, i);
  return room < 0 ? 0 : room / window->stride[i] + 1;
}

static int64_t global_index(const shoal_place_t *place, int32_t dim, int64_t i) {
  return place->index[dim] ? place->index[dim][i] : i;
}

static int64_t local_tap(const shoal_place_t *place, int32_t dim, int64_t global) {
  if (global < 0 || global >= place->whole.dims[dim]) return SHOAL_TAP_NONE;
  const int64_t local = shoal_place_local(place, dim, global);
  return local < 0 ? SHOAL_TAP_MISSING : local;
}

void shoal_window_complete(const shoal_window_t *window, const shoal_shape_t *input,
                           shoal_attr_value_t sizes[2]) {
  for (int32_t i = 0; i < 2; ++i)
    sizes[i].i = shoal_window_count(window, i, &sizes[i], input->dims[2 + i]);
}

shoal_status_t shoal_window_places(const shoal_call_t *call, const shoal_window_t *window,
                                   int32_t sizes, int32_t place_input, int32_t place_output,
                                   shoal_shape_t *shape, shoal_place_t *out_input,
                                   shoal_place_t *out_output) {
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, place_input, &call->inputs[0].shape, out_input));
  SHOAL_RETURN_IF_ERROR(shoal_window_fits(call, window, &out_input->whole));
  for (int32_t i = 0; i < 2; ++i) {
    shape->dims[2 + i] =
        shoal_window_count(window, i, &call->attrs[sizes + i], out_input->whole.dims[2 + i]);
  }
  return shoal_check_place(call, place_output, shape, out_output);
}

int64_t shoal_window_inputs(const shoal_window_t *window, int32_t i, const shoal_place_t *input,
                            const shoal_place_t *output, int64_t *inputs) {
  const int32_t dim = 2 + i;
  int64_t missing = -1;
  for (int64_t o = 0; o < output->part.dims[dim]; ++o) {
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
  const int32_t dim = 2 + i;
  int64_t missing = -1;
  for (int64_t x = 0; x < input->part.dims[dim]; ++x) {
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
  return shoal_op_blame(call,
                        SHOAL_ERROR(MISMATCH, "needs %s %lld of %s, which this part does not hold",
                                    i ? "column" : "row", (long long)missing, what));
}

// ---- tables -------------------------------------------------------------------------

int64_t shoal_taps_bytes(const shoal_shape_t *shape, const int64_t kernel[2]) {
  const int64_t entries = shape->dims[2] * kernel[0] + shape->dims[3] * kernel[1];
  return shoal_align64(entries * (int64_t)sizeof(int64_t));
}

shoal_taps_t shoal_taps_at(const shoal_shape_t *shape, const int64_t kernel[2], void *workspace) {
  int64_t *rows = workspace;
  return (shoal_taps_t){.kernel = {kernel[0], kernel[1]},
                        .table = {rows, rows + shape->dims[2] * kernel[0]}};
}

shoal_status_t shoal_taps_inputs(const shoal_call_t *call, const shoal_window_t *window,
                                 const shoal_place_t *x, const shoal_place_t *output,
                                 const shoal_taps_t *taps) {
  for (int32_t i = 0; i < 2; ++i) {
    const int64_t missing = shoal_window_inputs(window, i, x, output, taps->table[i]);
    SHOAL_RETURN_IF_ERROR(shoal_window_check(call, i, "x", missing));
  }
  return NULL;
}

shoal_status_t shoal_taps_outputs(const shoal_call_t *call, const shoal_window_t *window,
                                  const shoal_place_t *x, const shoal_place_t *dy,
                                  const shoal_taps_t *taps) {
  for (int32_t i = 0; i < 2; ++i) {
    const int64_t missing = outputs_of(window, i, x, dy, taps->table[i]);
    SHOAL_RETURN_IF_ERROR(shoal_window_check(call, i, "dy", missing));
  }
  return NULL;
}
