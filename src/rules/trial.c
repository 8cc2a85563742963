// Trials: one part of a call, executed.
//
// Attributes are bound by role, local types inferred. Whatever goes wrong (a layout that cannot be
// written, shapes that do not fit, an executor that refuses) says that the way does not exist; only
// a lack of memory is an error.
#include "rules/trial.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "op/operands.h"

bool trial_passed(trial_t *trial, shoal_status_t status) {
  if (!status) return !trial->error;
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY && !trial->error)
    trial->error = status;
  else
    shoal_status_free(status);
  return false;
}

bool trial_allocated(trial_t *trial, const void *memory) {
  return memory || trial_passed(trial, SHOAL_OOM());
}

// ---- guards ------------------------------------------------------------------------------------

// Guards are large numbers in every type, so that what is read there shows. Tensors begin at
// multiples of 8 or 16 bytes, as it comes: no kernel may depend on that.
enum { GUARD = 64, GUARD_BYTE = 0x7f, OTHER_BYTE = 0x21 };

bool trial_alloc(shoal_arena_t *arena, const shoal_type_t *type, shoal_tensor_t *out) {
  *out = (shoal_tensor_t){.dtype = type->dtype, .shape = type->shape};
  const size_t bytes = shoal_tensor_bytes(out);
  if (bytes > SIZE_MAX - 2 * GUARD - 8) return false;
  char *data = shoal_arena_alloc(arena, 1, bytes + 2 * GUARD + 8);
  if (!data) return false;
  data += GUARD + ((uintptr_t)data / 16 % 2) * 8;
  out->data = data;
  memset(data - GUARD, GUARD_BYTE, GUARD);
  memset(data + bytes, GUARD_BYTE, GUARD);
  return true;
}

void trial_change_guards(const shoal_tensor_t *tensor, bool other) {
  char *data = tensor->data;
  memset(data - GUARD, other ? OTHER_BYTE : GUARD_BYTE, GUARD);
  memset(data + shoal_tensor_bytes(tensor), other ? OTHER_BYTE : GUARD_BYTE, GUARD);
}

shoal_status_t trial_guarded(const trial_t *trial, const shoal_tensor_t *tensors) {
  static const char guard[GUARD] = {[0 ... GUARD - 1] = (char)GUARD_BYTE};
  for (int32_t i = 0; i < trial->output_count; ++i) {
    const shoal_tensor_t *tensor = &tensors[trial->input_count + i];
    const char *data = tensor->data;
    const bool behind = memcmp(data + shoal_tensor_bytes(tensor), guard, GUARD) != 0;
    if (!behind && memcmp(data - GUARD, guard, GUARD) == 0) continue;
    const bool silent = shoal_status_silence(false);  // this one is read
    shoal_status_t status = SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "its kernel must keep to the shapes that its infer gives",
        "%s writes %s of its output number %d", trial->op->name,
        behind ? "behind the end" : "before the beginning", i);
    shoal_status_silence(silent);
    return status;
  }
  return NULL;
}

// Of all inputs.
static uint64_t hash_inputs(const trial_t *trial, const shoal_tensor_t *tensors) {
  uint64_t hash = SHOAL_HASH_START;
  for (int32_t i = 0; i < trial->input_count; ++i) {
    hash = shoal_hash_bytes(hash, tensors[i].data, shoal_tensor_bytes(&tensors[i]));
  }
  return hash;
}

// ---- preparing ---------------------------------------------------------------------------------

// Are the local types of the outputs what the boxes make them? Outputs that are whole are not
// asked: what they come out as decides what they are.
static bool outputs_fit(const trial_t *trial, const shoal_way_t *way, const trial_part_t *part) {
  for (int32_t i = trial->input_count; i < trial->input_count + trial->output_count; ++i) {
    if (part->types[i].dtype != trial->types[i].dtype) return false;
    shoal_operand_kind_t kind = way->operands[i].kind;
    if (kind != SHOAL_OPERAND_CUT && kind != SHOAL_OPERAND_FLAT) continue;
    shoal_shape_t shape = shoal_boxes_shape(&part->boxes[i]);
    if (!shoal_shape_equal(&shape, &part->types[i].shape)) return false;
  }
  return true;
}

// Buffers for the outputs, and for inputs of which the part has not all. Their data are copied
// when they are executed.
static bool alloc_tensors(trial_t *trial, const shoal_way_t *way, shoal_arena_t *arena,
                          trial_part_t *part) {
  int32_t count = trial->input_count + trial->output_count;
  part->tensors = SHOAL_NEW(arena, shoal_tensor_t, count);
  if (!trial_allocated(trial, part->tensors)) return false;
  for (int32_t i = 0; i < count; ++i) {
    shoal_tensor_t *tensor = &part->tensors[i];
    *tensor = (shoal_tensor_t){.dtype = part->types[i].dtype, .shape = part->types[i].shape};
    if (i < trial->input_count && way->operands[i].kind == SHOAL_OPERAND_WHOLE) continue;
    if (!trial_allocated(trial, trial_alloc(arena, &part->types[i], tensor) ? tensor : NULL)) {
      return false;
    }
  }
  return true;
}

// Places without the indices of their elements: shapes are all that is looked at, and real calls
// have billions of elements.
static shoal_status_t bind_shapes(const trial_t *trial, const trial_part_t *part,
                                  shoal_arena_t *arena) {
  const int32_t ins = trial->input_count, attr_count = trial->op->attr_count;
  shoal_op_t op = *trial->op;
  shoal_attr_schema_t *schemas =
      shoal_arena_copy(arena, op.attrs, (size_t)attr_count, sizeof *schemas);
  shoal_place_t *places = SHOAL_NEW(arena, shoal_place_t, attr_count);
  if (!schemas || !places) return SHOAL_OOM();
  op.attrs = schemas;
  for (int32_t i = 0; i < attr_count; ++i) {
    if (schemas[i].role == SHOAL_ROLE_PLACE) schemas[i].role = SHOAL_ROLE_COUNT;
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_op_bind(&op, ins, trial->attrs, part->boxes, part->boxes + ins, arena, part->attrs));
  for (int32_t i = 0; i < attr_count; ++i) {
    if (trial->op->attrs[i].role != SHOAL_ROLE_PLACE) continue;
    const int32_t operand = shoal_attr_operand(trial->op, trial->attrs, ins, i);
    if (operand < 0) continue;
    const shoal_boxes_t *boxes = &part->boxes[operand];
    places[i] = (shoal_place_t){.whole = boxes->whole, .part = boxes->whole};
    places[i].flat = boxes->flat;
    places[i].from = boxes->from;
    places[i].to = boxes->to;
    for (int32_t d = 0; d < boxes->whole.rank; ++d) {
      places[i].part.dims[d] = boxes->dims[d].held_size;
    }
    const bool whole = !boxes->flat && shoal_shape_equal(&places[i].whole, &places[i].part);
    part->attrs[i].place = whole ? NULL : &places[i];
  }
  return NULL;
}

static shoal_status_t bind(const trial_t *trial, const trial_part_t *part, shoal_arena_t *arena) {
  if (trial->set_count == 0) return bind_shapes(trial, part, arena);
  const shoal_boxes_t *outputs = part->boxes + trial->input_count;
  return shoal_op_bind(trial->op, trial->input_count, trial->attrs, part->boxes, outputs, arena,
                       part->attrs);
}

bool trial_prepare(trial_t *trial, const shoal_way_t *way, const deal_t *deal, int64_t index,
                   shoal_arena_t *arena, trial_part_t *out) {
  int32_t ins = trial->input_count, count = ins + trial->output_count;
  *out = (trial_part_t){.boxes = SHOAL_NEW(arena, shoal_boxes_t, count),
                        .types = SHOAL_NEW(arena, shoal_type_t, count),
                        .attrs = SHOAL_NEW(arena, shoal_attr_value_t, trial->op->attr_count)};
  if (!trial_allocated(trial, out->boxes) || !trial_allocated(trial, out->types) ||
      !trial_allocated(trial, out->attrs)) {
    return false;
  }
  for (int32_t i = 0; i < count; ++i) {
    const shoal_boxes_t *boxes = trial_boxes(trial, way, i, &way->operands[i], deal, index, arena);
    if (!boxes) return false;
    out->boxes[i] = *boxes;
    out->types[i] = (shoal_type_t){trial->types[i].dtype, shoal_boxes_shape(boxes)};
  }
  if (!trial_passed(trial, bind(trial, out, arena))) return false;
  shoal_call_t call = {.op = trial->op,
                       .input_count = ins,
                       .output_count = trial->output_count,
                       .inputs = out->types,
                       .attrs = out->attrs};
  if (!trial_passed(trial, shoal_op_infer(&call, out->types + ins))) return false;
  if (!outputs_fit(trial, way, out)) return false;
  return trial->set_count == 0 || alloc_tensors(trial, way, arena, out);
}

shoal_status_t trial_fits(const shoal_call_t *call, const shoal_type_t *types,
                          const shoal_way_t *way, shoal_allocator_t allocator, bool *out_fits) {
  trial_t trial = {.allocator = allocator,
                   .op = call->op,
                   .input_count = call->input_count,
                   .output_count = shoal_op_outputs(call->op, call->attrs),
                   .attrs = call->attrs,
                   .types = types};
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  const bool silent = shoal_status_silence(true);
  *out_fits = true;
  for (int64_t parts = 2; parts <= 3; ++parts) {
    for (int64_t i = 0; *out_fits && i < parts; ++i) {
      trial_part_t part;
      const deal_t deal = {.parts = parts, .unit = 1};
      *out_fits = trial_prepare(&trial, way, &deal, i, &scratch, &part);
    }
  }
  shoal_status_silence(silent);
  shoal_arena_deinit(&scratch);
  return trial.error;
}

// ---- executing ---------------------------------------------------------------------------------

// Additive parts of a whole input: all but the last are random, the last makes up for them.
static void split_input(const shoal_tensor_t *whole, int32_t input, int32_t set, const deal_t *deal,
                        int64_t index, const shoal_tensor_t *out) {
  const uint64_t step = (uint64_t)((deal->salt * TRIAL_SETS + set) * TRIAL_MAX_PARTS + deal->parts);
  const bool last = index == deal->parts - 1;
  const int64_t count = shoal_shape_count(&out->shape);
  uint32_t words[TRIAL_MAX_PARTS][4] = {{0}};
  for (int64_t i = 0; i < count; ++i) {
    const double all = shoal_dtype_load(out->dtype, whole->data, i);
    double value = last ? all : 0;
    for (int64_t k = last ? 0 : index; k < (last ? index : index + 1); ++k) {
      const uint64_t key = UINT64_C(0x5a11) ^ (uint64_t)(input * 8 + k + 1);
      const double draw = 4 * shoal_philox_uniform(trial_word(key, step, i, words[k])) - 2;
      const double scaled = draw * (1 + fabs(all));  // of the size of what is split
      value = last ? value - scaled : scaled;
    }
    shoal_dtype_store(out->dtype, out->data, i, value);
  }
}

static bool fill_input(trial_t *trial, const shoal_way_t *way, int32_t input, const deal_t *deal,
                       int64_t index, trial_part_t *part) {
  const shoal_tensor_t *whole = trial_whole(trial, input);
  shoal_tensor_t *tensor = &part->tensors[input];
  switch (way->operands[input].kind) {
    case SHOAL_OPERAND_WHOLE:
      tensor->data = whole->data;
      return true;
    case SHOAL_OPERAND_PARTIAL:
      split_input(whole, input, trial->set, deal, index, tensor);
      return true;
    case SHOAL_OPERAND_CUT:
    case SHOAL_OPERAND_FLAT:
      break;
  }
  return trial_passed(trial, shoal_boxes_pack(&part->boxes[input], shoal_dtype_size(tensor->dtype),
                                              whole->data, tensor->data));
}

bool trial_execute(trial_t *trial, const shoal_way_t *way, const deal_t *deal, int64_t index,
                   trial_part_t *part) {
  int32_t ins = trial->input_count;
  for (int32_t i = 0; i < ins; ++i) {
    if (!fill_input(trial, way, i, deal, index, part)) return false;
  }
  for (int32_t i = ins; i < ins + trial->output_count; ++i) {  // what is not written is NaN
    memset(part->tensors[i].data, 0xff, shoal_tensor_bytes(&part->tensors[i]));
  }
  if (trial->executions++ >= trial->limit) return false;
  shoal_call_t call = {.op = trial->op,
                       .input_count = ins,
                       .output_count = trial->output_count,
                       .inputs = part->types,
                       .outputs = part->types + ins,
                       .attrs = part->attrs};
  const uint64_t before = trial->trusted ? 0 : hash_inputs(trial, part->tensors);
  if (!trial_passed(trial, trial->executor.execute(trial->executor.self, &call, part->tensors,
                                                   part->tensors + ins))) {
    return false;
  }
  shoal_status_t overran = trial_guarded(trial, part->tensors);
  if (!overran && !trial->trusted && before != hash_inputs(trial, part->tensors)) {
    const bool silent = shoal_status_silence(false);
    overran = SHOAL_ERROR(INVALID_ARGUMENT, "%s changes its inputs", trial->op->name);
    shoal_status_silence(silent);
  }
  if (!overran) return true;
  if (!trial->error)
    trial->error = overran;
  else
    shoal_status_free(overran);
  return false;
}
