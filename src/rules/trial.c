// Trials, second half: a call executed in parts, and the parts joined and compared with the whole.
//
// A part is exactly what a rank would have: layouts made from the way, boxes of the layout,
// attributes bound by role, local types inferred. Whatever goes wrong (a layout that cannot be
// written, shapes that do not fit, an executor that refuses) says that the way does not exist; only
// a lack of memory is an error.
#include "rules/trial.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/philox.h"
#include "base/status.h"
#include "op/reduce.h"

// Keeps a lack of memory, forgets every other error. Returns whether all is well.
static bool passed(trial_t *trial, shoal_status_t status) {
  if (!status) return !trial->error;
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY && !trial->error)
    trial->error = status;
  else
    shoal_status_free(status);
  return false;
}

static bool allocated(trial_t *trial, const void *memory) {
  return memory || passed(trial, SHOAL_OOM());
}

// ---- boxes -------------------------------------------------------------------------------------

// Boxes of an operand whose items are dealt like cards: no layout says that.
static bool alternate_boxes(trial_t *trial, const shoal_way_t *way, const shoal_way_operand_t *o,
                            const shoal_shape_t *shape, const deal_t *deal, int64_t index,
                            shoal_arena_t *arena, shoal_boxes_t *out) {
  int64_t window = o->length ? o->length : way->items, count = 0;
  if (window * o->repeat * o->scale != shape->dims[o->dim]) return false;
  shoal_interval_t *list =
      SHOAL_NEW(arena, shoal_interval_t, o->repeat * (window / deal->parts + 1));
  if (!allocated(trial, list)) return false;
  for (int64_t r = 0; r < o->repeat; ++r) {
    for (int64_t i = o->offset; i < o->offset + window; ++i) {
      if (i % deal->parts != index) continue;
      int64_t start = (r * window + i - o->offset) * o->scale;
      if (count && list[count - 1].start + list[count - 1].size == start) {
        list[count - 1].size += o->scale;
      } else {
        list[count++] = (shoal_interval_t){start, o->scale};
      }
    }
  }
  shoal_dim_part_t *part = &out->dims[o->dim];
  *part = (shoal_dim_part_t){.own_count = (int32_t)count, .held_count = (int32_t)count};
  part->own = part->held = list;
  for (int64_t i = 0; i < count; ++i) part->own_size += list[i].size;
  part->held_size = part->own_size;
  return true;
}

// What part `index` has of an operand of that shape.
static bool part_boxes(trial_t *trial, const shoal_way_t *way, int32_t operand,
                       const shoal_shape_t *shape, const deal_t *deal, int64_t index,
                       shoal_arena_t *arena, shoal_boxes_t *out) {
  const shoal_mesh_t mesh = {.axis_count = 1, .axes = {{"x", deal->parts}}};
  const shoal_item_cut_t item_cut = {.unit = deal->unit, .weights = deal->weights};
  shoal_layout_t layout = {.mesh = &mesh};
  bool cuts = false, dealt = deal->alternate && way->operands[operand].kind == SHOAL_OPERAND_CUT;
  if (!dealt) {
    if (!passed(trial, shoal_way_cut(way, operand, shape, 0, &item_cut, &cuts, &layout.cuts[0]))) {
      return false;
    }
    layout.cut_count = cuts;
  }
  if (!passed(trial, shoal_layout_boxes(&layout, shape, index, 0, arena, out))) return false;
  return !dealt ||
         alternate_boxes(trial, way, &way->operands[operand], shape, deal, index, arena, out);
}

// ---- executing ---------------------------------------------------------------------------------

// Additive parts of a whole input: all but the last are random, the last makes up for them.
static bool split_input(trial_t *trial, int32_t input, const deal_t *deal, int64_t index,
                        shoal_arena_t *arena, shoal_tensor_t *out) {
  *out = trial->whole[input];
  out->data = shoal_arena_alloc(arena, 1, shoal_tensor_bytes(out));
  if (!allocated(trial, out->data)) return false;
  for (int64_t i = 0; i < shoal_shape_count(&out->shape); ++i) {
    double value = 0, last = shoal_dtype_load(out->dtype, trial->whole[input].data, i);
    for (int64_t k = 0; k < deal->parts - 1; ++k) {
      uint32_t word =
          shoal_philox_word(UINT64_C(0x5a11), (uint64_t)(input * 8 + k + 1), 1, (uint64_t)i);
      double draw = 2 * shoal_philox_uniform(word) - 1;
      if (k == index) value = draw;
      last -= draw;
    }
    shoal_dtype_store(out->dtype, out->data, i, index == deal->parts - 1 ? last : value);
  }
  return true;
}

static bool part_input(trial_t *trial, const shoal_way_t *way, int32_t input,
                       const shoal_boxes_t *boxes, const deal_t *deal, int64_t index,
                       shoal_arena_t *arena, shoal_tensor_t *out) {
  *out = trial->whole[input];
  if (way->operands[input].kind == SHOAL_OPERAND_WHOLE) return true;
  if (way->operands[input].kind == SHOAL_OPERAND_PARTIAL) {
    return split_input(trial, input, deal, index, arena, out);
  }
  out->shape = shoal_boxes_shape(boxes);
  out->data = shoal_arena_alloc(arena, 1, shoal_tensor_bytes(out));
  return allocated(trial, out->data) &&
         passed(trial, shoal_boxes_pack(boxes, shoal_dtype_size(out->dtype),
                                        trial->whole[input].data, out->data));
}

// Are the local types of the outputs what the boxes make them? Outputs that are whole are not
// asked: what they come out as decides what they are.
static bool outputs_fit(const trial_t *trial, const shoal_way_t *way, const shoal_boxes_t *boxes,
                        const shoal_type_t *types) {
  for (int32_t i = 0; i < trial->output_count; ++i) {
    if (types[i].dtype != trial->types[trial->input_count + i].dtype) return false;
    shoal_operand_kind_t kind = way->operands[trial->input_count + i].kind;
    if (kind != SHOAL_OPERAND_CUT && kind != SHOAL_OPERAND_FLAT) continue;
    shoal_shape_t shape = shoal_boxes_shape(&boxes[i]);
    if (!shoal_shape_equal(&shape, &types[i].shape)) return false;
  }
  return true;
}

// Executes one part; of a trial without data, only its shapes are looked at.
static bool run_part(trial_t *trial, const shoal_way_t *way, const deal_t *deal, int64_t index,
                     shoal_arena_t *arena, shoal_tensor_t **out_outputs) {
  int32_t ins = trial->input_count, count = ins + trial->output_count;
  shoal_boxes_t *boxes = SHOAL_NEW(arena, shoal_boxes_t, count);
  shoal_type_t *types = SHOAL_NEW(arena, shoal_type_t, count);
  shoal_tensor_t *tensors = SHOAL_NEW(arena, shoal_tensor_t, count);
  shoal_attr_value_t *attrs = SHOAL_NEW(arena, shoal_attr_value_t, trial->op->attr_count);
  if (!allocated(trial, boxes) || !allocated(trial, types) || !allocated(trial, tensors) ||
      !allocated(trial, attrs)) {
    return false;
  }
  for (int32_t i = 0; i < count; ++i) {
    if (!part_boxes(trial, way, i, &trial->types[i].shape, deal, index, arena, &boxes[i]))
      return false;
    types[i] = (shoal_type_t){trial->types[i].dtype, shoal_boxes_shape(&boxes[i])};
  }
  if (!passed(trial,
              shoal_op_bind(trial->op, ins, trial->attrs, boxes, boxes + ins, arena, attrs))) {
    return false;
  }
  shoal_call_t call = {.op = trial->op,
                       .input_count = ins,
                       .output_count = trial->output_count,
                       .inputs = types,
                       .attrs = attrs};
  if (!passed(trial, shoal_op_infer(&call, types + ins))) return false;
  if (!outputs_fit(trial, way, boxes + ins, types + ins)) return false;
  if (!trial->whole) return true;
  for (int32_t i = 0; i < ins; ++i) {
    if (!part_input(trial, way, i, &boxes[i], deal, index, arena, &tensors[i])) return false;
  }
  for (int32_t i = ins; i < count; ++i) {
    tensors[i] = (shoal_tensor_t){.dtype = types[i].dtype, .shape = types[i].shape};
    tensors[i].data = shoal_arena_alloc(arena, 1, shoal_tensor_bytes(&tensors[i]));
    if (!allocated(trial, tensors[i].data)) return false;
  }
  call.outputs = types + ins;
  if (trial->executions++ >= trial->limit) return false;
  *out_outputs = tensors + ins;
  return passed(trial,
                trial->executor.execute(trial->executor.self, &call, tensors, tensors + ins));
}

bool trial_run(trial_t *trial, const shoal_way_t *way, const deal_t *deal, shoal_arena_t *arena,
               trial_parts_t *out_parts) {
  for (int64_t i = 0; i < deal->parts; ++i) {
    if (!run_part(trial, way, deal, i, arena, &out_parts->outputs[i])) return false;
  }
  return true;
}

shoal_status_t trial_fits(const shoal_call_t *call, const shoal_type_t *types,
                          const shoal_way_t *way, shoal_allocator_t allocator, bool *out_fits) {
  trial_t trial = {.allocator = allocator,
                   .op = call->op,
                   .input_count = call->input_count,
                   .output_count = call->op->output_count,
                   .attrs = call->attrs,
                   .types = types};
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  trial_parts_t parts;
  *out_fits = trial_run(&trial, way, &(deal_t){.parts = 2, .unit = 1}, &scratch, &parts) &&
              trial_run(&trial, way, &(deal_t){.parts = 3, .unit = 1}, &scratch, &parts);
  shoal_arena_deinit(&scratch);
  return trial.error;
}

// ---- comparing ---------------------------------------------------------------------------------

static double tolerance(shoal_dtype_t dtype) {
  switch (dtype) {
    case SHOAL_F64:
      return 1e-9;
    case SHOAL_F32:
      return 1e-4;
    case SHOAL_F16:
      return 16 * 0x1p-10;
    case SHOAL_BF16:
      return 8 * 0x1p-7;
    default:
      return 0;
  }
}

// The same for f64, which nearly all trials are made in: ends at the first that differs.
static bool same_doubles(const double *a, const double *b, int64_t count) {
  double largest = 1e-6, limit;
  for (int64_t i = 0; i < count; ++i) {
    if (isfinite(b[i]) && fabs(b[i]) > largest) largest = fabs(b[i]);
  }
  limit = tolerance(SHOAL_F64) * largest;
  for (int64_t i = 0; i < count; ++i) {
    if (fabs(a[i] - b[i]) <= limit) continue;
    bool same = isnan(b[i]) ? isnan(a[i]) : a[i] == b[i];  // infinities
    if (!same) return false;
  }
  return true;
}

// max|a - b| <= tol * max|b|; infinities and NaN must be the same on both sides.
static bool same_values(shoal_dtype_t dtype, const void *a, const void *b, int64_t count) {
  if (dtype == SHOAL_F64) return same_doubles(a, b, count);
  double worst = 0, largest = 1e-6;
  for (int64_t i = 0; i < count; ++i) {
    if (!shoal_dtype_is_float(dtype)) {
      if (shoal_dtype_load_int(dtype, a, i) != shoal_dtype_load_int(dtype, b, i)) return false;
      continue;
    }
    double x = shoal_dtype_load(dtype, a, i), y = shoal_dtype_load(dtype, b, i);
    if (isfinite(x) != isfinite(y) || isnan(x) != isnan(y)) return false;
    if (!isfinite(y)) {
      if (!isnan(y) && x != y) return false;
      continue;
    }
    worst = fmax(worst, fabs(x - y));
    largest = fmax(largest, fabs(y));
  }
  return worst <= tolerance(dtype) * largest;
}

static void join_doubles(int32_t output, shoal_reduce_t reduce, int64_t part_count,
                         const trial_parts_t *parts, int64_t count, double *joined) {
  for (int64_t p = 0; p < part_count; ++p) {
    const double *part = parts->outputs[p][output].data;
    for (int64_t i = 0; i < count; ++i) {
      joined[i] = p ? shoal_reduce_reals(reduce, joined[i], part[i]) : part[i];
    }
  }
}

static bool partial_holds(trial_t *trial, const shoal_tensor_t *whole, int32_t output,
                          shoal_reduce_t reduce, const deal_t *deal, const trial_parts_t *parts,
                          shoal_arena_t *arena) {
  if (whole->dtype == SHOAL_BOOL && reduce == SHOAL_REDUCE_SUM) return false;  // a bool has no sum
  int64_t count = shoal_shape_count(&whole->shape);
  void *joined = shoal_arena_alloc(arena, (size_t)count, shoal_dtype_size(whole->dtype));
  if (!allocated(trial, joined)) return false;
  if (whole->dtype == SHOAL_F64) {
    join_doubles(output, reduce, deal->parts, parts, count, joined);
    return same_values(whole->dtype, joined, whole->data, count);
  }
  for (int64_t i = 0; i < count; ++i) {
    double real = 0;
    int64_t integer = 0;
    for (int64_t p = 0; p < deal->parts; ++p) {
      const void *part = parts->outputs[p][output].data;
      if (shoal_dtype_is_float(whole->dtype)) {
        double value = shoal_dtype_load(whole->dtype, part, i);
        real = p ? shoal_reduce_reals(reduce, real, value) : value;
      } else {
        int64_t value = shoal_dtype_load_int(whole->dtype, part, i);
        integer = p ? shoal_reduce_integers(reduce, integer, value) : value;
      }
    }
    if (shoal_dtype_is_float(whole->dtype))
      shoal_dtype_store(whole->dtype, joined, i, real);
    else
      shoal_dtype_store_int(whole->dtype, joined, i, integer);
  }
  return same_values(whole->dtype, joined, whole->data, count);
}

int32_t trial_partner(const trial_t *trial, int32_t output) {
  if (trial->output_count != 2) return -1;
  const shoal_type_t *value = &trial->types[trial->input_count], *lse = value + 1;
  if (!shoal_dtype_is_float(value->dtype) || !shoal_dtype_is_float(lse->dtype)) return -1;
  const int32_t rank = value->shape.rank, own = lse->shape.rank;
  if (rank < 1 || (own != rank - 1 && (own != rank || lse->shape.dims[rank - 1] != 1))) return -1;
  for (int32_t d = 0; d < rank - 1; ++d)
    if (value->shape.dims[d] != lse->shape.dims[d]) return -1;
  return 1 - output;
}

// Merges the parts of a value and of its logarithms, as shoal.lse_merge does. One of the two is
// wanted.
static void merge_row(int64_t part_count, const trial_parts_t *parts, int64_t row, int64_t length,
                      double *out_value, double *out_lse) {
  const shoal_tensor_t *first = parts->outputs[0];
  double most = -INFINITY, sum = 0;
  for (int64_t p = 0; p < part_count; ++p)
    most = fmax(most, shoal_dtype_load(first[1].dtype, parts->outputs[p][1].data, row));
  for (int64_t j = 0; out_value && j < length; ++j) out_value[j] = 0;
  for (int64_t p = 0; p < part_count && most > -INFINITY; ++p) {
    const double x = shoal_dtype_load(first[1].dtype, parts->outputs[p][1].data, row);
    const double w = exp(x - most);
    sum += w;
    for (int64_t j = 0; out_value && w > 0 && j < length; ++j)
      out_value[j] +=
          w * shoal_dtype_load(first[0].dtype, parts->outputs[p][0].data, row * length + j);
  }
  for (int64_t j = 0; out_value && sum > 0 && j < length; ++j) out_value[j] /= sum;
  if (out_lse) *out_lse = most > -INFINITY ? most + log(sum) : most;
}

// Do the parts of both outputs merge to the whole of output `output`? All have their whole shapes.
static bool pair_holds(trial_t *trial, const shoal_tensor_t *whole, int32_t output,
                       const deal_t *deal, const trial_parts_t *parts, shoal_arena_t *arena) {
  const int32_t partner = trial_partner(trial, output);
  if (partner < 0) return false;
  const shoal_tensor_t *other = &trial->whole[trial->input_count + partner];
  for (int64_t p = 0; p < deal->parts; ++p)
    if (!shoal_shape_equal(&parts->outputs[p][partner].shape, &other->shape)) return false;
  const int64_t count = shoal_shape_count(&whole->shape);
  const shoal_shape_t *value = &trial->types[trial->input_count].shape;
  const int64_t length = value->dims[value->rank - 1];
  const int64_t rows = shoal_shape_count(&trial->types[trial->input_count + 1].shape);
  double *row = SHOAL_NEW(arena, double, length);
  void *joined = shoal_arena_alloc(arena, (size_t)count, shoal_dtype_size(whole->dtype));
  if (!allocated(trial, row) || !allocated(trial, joined)) return false;
  for (int64_t r = 0; r < rows; ++r) {
    double lse = 0;
    merge_row(deal->parts, parts, r, length, output == 0 ? row : NULL, output == 0 ? NULL : &lse);
    if (output == 1) shoal_dtype_store(whole->dtype, joined, r, lse);
    for (int64_t j = 0; output == 0 && j < length; ++j)
      shoal_dtype_store(whole->dtype, joined, r * length + j, row[j]);
  }
  return same_values(whole->dtype, joined, whole->data, count);
}

static int64_t owned_count(const shoal_boxes_t *boxes) {
  if (boxes->flat) return boxes->to - boxes->from;
  int64_t count = 1;
  for (int32_t d = 0; d < boxes->whole.rank; ++d) count *= boxes->dims[d].own_size;
  return count;
}

static bool cut_holds(trial_t *trial, const shoal_way_t *way, int32_t operand,
                      const shoal_tensor_t *whole, const deal_t *deal, const trial_parts_t *parts,
                      shoal_arena_t *arena) {
  int32_t output = operand - trial->input_count;
  int64_t count = shoal_shape_count(&whole->shape), owned = 0;
  void *joined = shoal_arena_alloc(arena, (size_t)count, shoal_dtype_size(whole->dtype));
  if (!allocated(trial, joined)) return false;
  for (int64_t p = 0; p < deal->parts; ++p) {
    shoal_boxes_t boxes;
    if (!part_boxes(trial, way, operand, &whole->shape, deal, p, arena, &boxes)) return false;
    shoal_shape_t shape = shoal_boxes_shape(&boxes);
    if (!shoal_shape_equal(&shape, &parts->outputs[p][output].shape)) return false;
    owned += owned_count(&boxes);
    if (!passed(trial, shoal_boxes_unpack(&boxes, shoal_dtype_size(whole->dtype),
                                          parts->outputs[p][output].data, true, joined))) {
      return false;
    }
  }
  return owned == count && same_values(whole->dtype, joined, whole->data, count);
}

bool trial_holds(trial_t *trial, const shoal_way_t *way, int32_t output,
                 const shoal_way_operand_t *form, const deal_t *deal, const trial_parts_t *parts,
                 shoal_arena_t *arena) {
  int32_t operand = trial->input_count + output, count = trial->input_count + trial->output_count;
  const shoal_tensor_t *whole = &trial->whole[operand];
  if (form->kind == SHOAL_OPERAND_CUT || form->kind == SHOAL_OPERAND_FLAT) {
    shoal_way_operand_t *operands =
        shoal_arena_copy(arena, way->operands, (size_t)count, sizeof *operands);
    if (!allocated(trial, operands)) return false;
    operands[operand] = *form;
    shoal_way_t given = *way;
    given.operands = operands;
    return cut_holds(trial, &given, operand, whole, deal, parts, arena);
  }
  for (int64_t p = 0; p < deal->parts; ++p) {
    if (!shoal_shape_equal(&parts->outputs[p][output].shape, &whole->shape)) return false;
  }
  if (form->kind == SHOAL_OPERAND_PARTIAL && form->reduce == SHOAL_REDUCE_LSE)
    return pair_holds(trial, whole, output, deal, parts, arena);
  if (form->kind == SHOAL_OPERAND_PARTIAL) {
    return partial_holds(trial, whole, output, form->reduce, deal, parts, arena);
  }
  for (int64_t p = 0; p < deal->parts; ++p) {
    const shoal_tensor_t *part = &parts->outputs[p][output];
    if (!same_values(whole->dtype, part->data, whole->data, shoal_shape_count(&whole->shape)))
      return false;
  }
  return true;
}
