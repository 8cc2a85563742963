// Trials: values for a call, and its result on the whole.
//
// Floats are computed as f64 where the op has a reference kernel, so that parts can be compared
// tightly. Which values an op accepts is not known: integers may be indices into a dim of another
// input, floats may have to be positive. Draws are tried in a fixed order, and the first whose
// results are all finite is kept (or else the one with the most that are). Four sets of values are
// drawn, because what holds for one may not hold for another:
//   0      between -1 and 1; where they have to be positive, between 0 and 1
//   1      the same, and every other one beyond the numbers among the attributes, and beyond 3,
//          where activations bend: within its bounds, `clamp` would seem to be linear
//   2      quarters: ties and zeros (no zeros if they give infinities)
//   3      magnitudes from 1/1000 to 1000, and one in eight from 1000 to 1e9
// A single integer (a step) and every bool (a condition) differ between the first two for sure: if
// all conditions of a small tensor were true, `where` would seem to be linear in one branch.
//
// Equality of results that are not finite proves nothing: an op with mostly such results has no
// ways. Nor has one whose result differs when it is executed again, over other garbage.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/indices.h"
#include "rules/trial.h"

enum { EXECUTION_LIMIT = 60000 };  // parts per call: discovery keeps what it has found by then

typedef struct draw {
  int64_t limit;     // integers are below
  bool from_one;     // integers are not 0 (step counts)
  int32_t positive;  // this input's floats are positive; -1: none; INT32_MAX: all
  double reach;      // floats of the second set are so many times larger
  bool no_zeros;     // among the quarters
} draw_t;

static double real_of(uint32_t word, int64_t element, int32_t set, bool positive,
                      const draw_t *draw) {
  const double u = shoal_philox_uniform(word), sign = word % 2 || positive ? 1 : -1;
  if (set == 2 && (positive || draw->no_zeros)) return sign * (double)(1 + word / 2 % 4) / 4;
  if (set == 2) return (double)((int64_t)(word / 2 % 9) - 4) / 4;
  if (set == 3) return sign * exp2(word / 2 % 8 ? 20 * u - 10 : 20 * u + 10);
  // Every other one: all beyond, and the slope of `clamp` would seem to be nothing at all.
  return (positive ? 0.05 + 0.9 * u : 2 * u - 1) * (set && element % 2 == 0 ? draw->reach : 1);
}

// `indices`: how many an integer input may hold; 0: unknown, the draw guesses. `spare`: an index
// besides; NULL: there is none.
static void fill(shoal_tensor_t *tensor, int32_t input, int32_t set, int64_t indices,
                 const int64_t *spare, const draw_t *draw) {
  int64_t count = shoal_shape_count(&tensor->shape);
  bool positive = draw->positive == input || draw->positive == INT32_MAX;
  int64_t low = draw->from_one, range = draw->limit > low ? draw->limit - low : 1;
  if (indices > 0) low = 0, range = indices;
  bool flips = tensor->dtype == SHOAL_BOOL;
  if (flips) low = 0, range = 2;
  uint32_t words[4] = {0};
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word =
        trial_word(UINT64_C(0x5348) ^ ((uint64_t)input + 1), (uint64_t)(flips ? 0 : set), i, words);
    int64_t number = count == 1 ? set : (int64_t)(word >> 8) + (flips ? set : 0);
    if (shoal_dtype_is_real(tensor->dtype)) {
      const double value = real_of(word, i, set, positive, draw);
      shoal_dtype_store(tensor->dtype, tensor->data, i, value);
    } else {
      const bool spared = spare && word % 8 == 1;
      int64_t value = low + number % range;
      // One index is left out, another one in each set: where all of a tensor is written over, it
      // would seem that what was there never counts. And one occurs twice: where all differ, a
      // maximum over those that are equal would seem to be linear. Of two, both are there in the
      // later sets: where all are equal, a maximum over several is linear.
      if (indices > 2 || (indices == 2 && set < 2)) {
        value = number % (indices - 1);
        value += value >= (set + 1) % indices;
        if (i > 0 && i == count - 1) value = shoal_dtype_load_int(tensor->dtype, tensor->data, 0);
        // A single one is the last there is, once: the first few may lie in every part.
        if (count == 1 && set == 1) value = indices - 1;
      }
      shoal_dtype_store_int(tensor->dtype, tensor->data, i, spared ? *spare : value);
    }
  }
}

// How much the results say: 1 if all are finite, 0 if none is, else the smallest share of numbers
// that are not NaN among the float outputs, less a little. Infinities are results like others (of
// nothing, a maximum is infinite).
static double evidence(const trial_t *trial, int32_t set) {
  double least = 1;
  for (int32_t i = trial->input_count; i < trial->input_count + trial->output_count; ++i) {
    const shoal_tensor_t *t = &trial->sets[set][i];
    const int64_t count = shoal_shape_count(&t->shape);
    int64_t finite = 0, numbers = 0;
    if (!shoal_dtype_is_float(t->dtype) || count == 0) continue;
    for (int64_t k = 0; k < count; ++k) {
      const double value = shoal_dtype_load(t->dtype, t->data, k);
      finite += isfinite(value) != 0;
      numbers += !isnan(value);
    }
    if (finite < count) least = fmin(least, finite ? 0.99 * (double)numbers / (double)count : 0);
  }
  return least;
}

// Values that are indices for every dim of every other input, and for every size attribute.
static int64_t index_limit(const trial_t *trial) {
  int64_t limit = INT64_MAX;
  for (int32_t i = 0; i < trial->input_count; ++i) {
    if (!shoal_dtype_is_float(trial->types[i].dtype)) continue;
    for (int32_t d = 0; d < trial->types[i].shape.rank; ++d) {
      int64_t size = trial->types[i].shape.dims[d];
      if (size >= 2 && size < limit) limit = size;
    }
  }
  for (int32_t i = 0; i < trial->op->attr_count; ++i) {
    const shoal_attr_schema_t *schema = &trial->op->attrs[i];
    if (schema->role != SHOAL_ROLE_SIZE) continue;
    bool many = schema->kind == SHOAL_ATTR_INTS;
    for (int32_t d = 0; d < (many ? trial->attrs[i].count : 1); ++d) {
      int64_t size = many ? trial->attrs[i].ints[d] : trial->attrs[i].i;
      if (size >= 2 && size < limit) limit = size;
    }
  }
  return limit == INT64_MAX ? 9 : limit;  // 0 and 1 alone would make a quotient linear
}

// At least 4, and twice as far as the largest real attribute, if it is no stand-in for infinity.
static double reach_of(const trial_t *trial) {
  double reach = 4;
  for (int32_t i = 0; i < trial->op->attr_count; ++i) {
    if (trial->op->attrs[i].kind != SHOAL_ATTR_REAL) continue;
    const double size = 2 * fabs(trial->attrs[i].f);
    if (size > reach && size <= 1e100) reach = size;
  }
  return reach;
}

// Executes the whole over outputs that hold garbage.
static shoal_status_t execute_whole(trial_t *trial, int32_t set, int garbage) {
  const int32_t ins = trial->input_count;
  shoal_tensor_t *whole = trial->sets[set];
  const shoal_call_t call = {.op = trial->op,
                             .input_count = ins,
                             .output_count = trial->output_count,
                             .inputs = trial->types,
                             .outputs = trial->types + ins,
                             .attrs = trial->attrs};
  for (int32_t i = ins; i < ins + trial->output_count; ++i) {
    memset(whole[i].data, garbage, shoal_tensor_bytes(&whole[i]));
  }
  SHOAL_RETURN_IF_ERROR(trial->executor.execute(trial->executor.self, &call, whole, whole + ins));
  return trial_guarded(trial, whole);
}

static shoal_status_t run_whole(trial_t *trial, int32_t set, const draw_t *draw) {
  const shoal_call_t call = {.op = trial->op,
                             .input_count = trial->input_count,
                             .output_count = trial->output_count,
                             .inputs = trial->types,
                             .outputs = trial->types + trial->input_count,
                             .attrs = trial->attrs};
  for (int32_t i = 0; i < trial->input_count; ++i) {
    int64_t spare;
    const bool spares = shoal_indices_spare(&call, i, &spare);
    fill(&trial->sets[set][i], i, set, shoal_indices(&call, i), spares ? &spare : NULL, draw);
  }
  return execute_whole(trial, set, 0);
}

// Tries draws until one gives finite results; settles for the one with the most.
static shoal_status_t draw_first(trial_t *trial, draw_t *out_draw) {
  int32_t variants = trial->input_count + 2;
  const int64_t limits[] = {index_limit(trial), 2, 1};
  double best = -1;
  shoal_status_t refused = NULL;
  for (int32_t k = 0; k < 4 * variants; ++k) {
    int32_t mode = k / variants, which = k % variants;
    draw_t draw = {.limit = limits[mode < 2 ? 0 : mode - 1],
                   .reach = reach_of(trial),
                   .from_one = mode == 1,
                   .positive = which == 0             ? -1
                               : which < variants - 1 ? which - 1
                                                      : INT32_MAX};
    shoal_status_t status = run_whole(trial, 0, &draw);
    const double share = status ? -1 : evidence(trial, 0);
    if (share > best) {
      *out_draw = draw;
      best = share;
    }
    if (best == 1 || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) {
      shoal_status_free(refused);
      return status;
    }
    if (!refused)
      refused = status;
    else
      shoal_status_free(status);
  }
  if (best < 0) return refused;
  shoal_status_free(refused);
  return run_whole(trial, 0, out_draw);
}

// Executes the first set again, with something else around its inputs: it must give the same bits,
// and leave its inputs alone.
static shoal_status_t repeat_whole(trial_t *trial) {
  const int32_t count = trial->input_count + trial->output_count;
  shoal_tensor_t *whole = trial->sets[0];
  void **copies = SHOAL_NEW(&trial->arena, void *, count);
  if (!copies) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) {
    copies[i] = shoal_arena_copy(&trial->arena, whole[i].data, 1, shoal_tensor_bytes(&whole[i]));
    if (!copies[i]) return SHOAL_OOM();
  }
  for (int32_t i = 0; i < trial->input_count; ++i) trial_change_guards(&whole[i], true);
  SHOAL_RETURN_IF_ERROR(execute_whole(trial, 0, 0xff));
  for (int32_t i = 0; i < trial->input_count; ++i) trial_change_guards(&whole[i], false);
  for (int32_t i = 0; i < count; ++i) {
    const size_t bytes = shoal_tensor_bytes(&whole[i]);
    if (bytes == 0 || memcmp(whole[i].data, copies[i], bytes) == 0) continue;
    if (i < trial->input_count) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s changes its input number %d", trial->op->name, i);
    }
    trial->note = "executed again, it gives another result";
  }
  return NULL;
}

// One more set of values; it counts if the op takes them and gives finite numbers.
static bool add_set(trial_t *trial, draw_t *draw) {
  const int32_t set = trial->set_count;
  for (draw->no_zeros = false;; draw->no_zeros = true) {
    shoal_status_t status = run_whole(trial, set, draw);
    const double share = status ? 0 : evidence(trial, set);
    shoal_status_free(status);
    if (share == 1 || (set == 1 && share > 0.5)) return true;
    if (set != 2 || draw->no_zeros) return false;
  }
}

static shoal_status_t draw_data(trial_t *trial) {
  draw_t draw;
  SHOAL_RETURN_IF_ERROR(draw_first(trial, &draw));
  int64_t read = 0;  // of nothing, a maximum is infinite
  for (int32_t i = 0; i < trial->input_count; ++i) {
    read += shoal_shape_count(&trial->types[i].shape);
  }
  if (read > 0 && evidence(trial, 0) <= 0.5) trial->note = "its results are not finite";
  SHOAL_RETURN_IF_ERROR(repeat_whole(trial));
  trial->set_count = 1;
  if (trial->note) return NULL;
  const bool silent = shoal_status_silence(true);
  while (trial->set_count < trial->most_sets && add_set(trial, &draw)) ++trial->set_count;
  shoal_status_silence(silent);
  return NULL;
}

static shoal_status_t prepare(trial_t *trial, const shoal_call_t *call, bool promote) {
  int32_t count = trial->input_count + trial->output_count;
  shoal_type_t *types = SHOAL_NEW(&trial->arena, shoal_type_t, count);
  if (!types) return SHOAL_OOM();
  trial->types = types;
  for (int32_t i = 0; i < trial->input_count; ++i) {
    types[i] = call->inputs[i];
    if (promote && shoal_dtype_is_float(call->inputs[i].dtype)) types[i].dtype = SHOAL_F64;
  }
  shoal_call_t whole = *call;
  whole.inputs = types;
  whole.outputs = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&whole, types + trial->input_count));
  trial->boxes = SHOAL_NEW(&trial->arena, boxes_entry_t *, count);
  if (!trial->boxes) return SHOAL_OOM();
  for (int32_t set = 0; set < trial->most_sets; ++set) {
    shoal_tensor_t *tensors = trial->sets[set] = SHOAL_NEW(&trial->arena, shoal_tensor_t, count);
    trial->largest[set] = SHOAL_NEW(&trial->arena, double, trial->output_count);
    if (!trial->largest[set]) return SHOAL_OOM();
    for (int32_t i = 0; i < count; ++i) {
      if (!tensors || !trial_alloc(&trial->arena, &types[i], &tensors[i])) return SHOAL_OOM();
    }
  }
  SHOAL_RETURN_IF_ERROR(draw_data(trial));
  for (int32_t i = 0; i < trial->set_count * trial->output_count; ++i) {
    int32_t set = i / trial->output_count, output = i % trial->output_count;
    const shoal_tensor_t *tensor = &trial->sets[set][trial->input_count + output];
    if (shoal_dtype_is_float(tensor->dtype)) trial->largest[set][output] = trial_largest(tensor);
  }
  return NULL;
}

shoal_status_t trial_init(const shoal_call_t *call, shoal_executor_t executor,
                          shoal_allocator_t allocator, int32_t sets, trial_t *out_trial) {
  *out_trial = (trial_t){.allocator = allocator,
                         .executor = executor,
                         .op = call->op,
                         .input_count = call->input_count,
                         .output_count = shoal_op_outputs(call->op, call->attrs),
                         .attrs = call->attrs,
                         .most_sets = sets,
                         .trusted = strncmp(call->op->name, "shoal.", strlen("shoal.")) == 0,
                         .limit = EXECUTION_LIMIT};
  shoal_arena_init(allocator, &out_trial->arena);
  if (call->op->kernel) {
    shoal_status_t status = prepare(out_trial, call, true);
    if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
    shoal_status_free(status);
  }
  return prepare(out_trial, call, false);
}

void trial_deinit(trial_t *trial) {
  shoal_arena_deinit(&trial->arena);
  shoal_status_free(trial->error);
  trial->error = NULL;
}
