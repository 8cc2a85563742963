// Bounded sizes: a compute instruction on buffers whose number of valid rows is read from another
// buffer when it runs. The kernel sees tensors of that many rows; the memory stays where the plan
// put it, and copies, feeds, fetches and communication move whole buffers. Rows are counted in the
// whole value: a rank takes of its part those that lie among the first n. The device does so
// (shoal_bounded_t); here is what load tells it, and checks.
//
// A number that an op gets as an attribute was bound at load, for all rows: ops with such
// attributes about a bounded buffer are refused.
#include "base/status.h"
#include "device/device.h"
#include "run/run_impl.h"

typedef struct bounded {
  shoal_runner_t *runner;
  shoal_call_t call;    // of `types`
  shoal_type_t *types;  // inputs, then outputs
  int32_t count;
  shoal_bounded_t *items;
} bounded_t;

static bool is_about(const shoal_attr_schema_t *attr, int32_t operand, int32_t input_count) {
  if (attr->role != SHOAL_ROLE_SIZE && attr->role != SHOAL_ROLE_POSITION &&
      attr->role != SHOAL_ROLE_PLACE)
    return false;
  if (attr->kind == SHOAL_ATTR_INT && attr->dim > 0) return false;  // of another dim than the rows
  return operand < input_count ? attr->operand == SHOAL_INPUT(operand)
                               : attr->operand == SHOAL_OUTPUT(operand - input_count);
}

// Does the op make of n rows what the outputs then have?
static shoal_status_t check_rows(bounded_t *b, int64_t n, shoal_type_t *made) {
  for (int32_t i = 0; i < b->count; ++i)
    b->types[b->items[i].operand].shape.dims[0] = shoal_bounded_rows(&b->items[i], n);
  shoal_call_t asked = b->call;
  asked.outputs = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&asked, made));
  for (int32_t o = 0; o < b->call.output_count; ++o)
    if (!shoal_shape_equal(&made[o].shape, &b->call.outputs[o].shape))
      return SHOAL_ERROR_HINT(
          MISMATCH, "give the output the same count, or none where rows are summed away",
          "output %d of %s has another number of rows than its %lld bounded ones make", o,
          b->call.op->name, (long long)n);
  return NULL;
}

static shoal_status_t add_rows(bounded_t *b, int32_t operand, const shoal_bound_buffer_t *part,
                               const shoal_bound_buffer_t *at, const shoal_buffer_t *buffer) {
  shoal_runner_t *runner = b->runner;
  const shoal_buffer_t *count = &runner->bound.rank_class->buffers[buffer->count];
  const shoal_op_t *op = b->call.op;
  if (part->boxes.flat)
    return SHOAL_ERROR(UNSUPPORTED, "'%s' is bounded and cut flat: it has no rows", buffer->name);
  for (int32_t a = 0; a < op->attr_count; ++a)
    if (is_about(&op->attrs[a], operand, b->call.input_count))
      return SHOAL_ERROR_HINT(
          UNSUPPORTED, "leave its buffers unbounded",
          "%s needs its attribute '%s' to be known at load, but '%s' is bounded", op->name,
          op->attrs[a].name, buffer->name);
  b->items[b->count++] = (shoal_bounded_t){.operand = operand,
                                           .name = count->name,
                                           .count = runner->memory + (shoal_address_t)at->offset,
                                           .dtype = count->type.dtype,
                                           .whole = buffer->type.shape.dims[0],
                                           .part = &part->boxes.dims[0]};
  return NULL;
}

static const shoal_buffer_t *buffer_of(const shoal_runner_t *runner, const shoal_instruction_t *in,
                                       int32_t k) {
  int32_t index = k < in->input_count ? in->inputs[k] : in->outputs[k - in->input_count];
  return &runner->bound.rank_class->buffers[index];
}

shoal_status_t shoal_run_bounded(shoal_runner_t *runner, const shoal_bound_instruction_t *bound,
                                 shoal_launch_t *launch) {
  const shoal_instruction_t *in = bound->instruction;
  int32_t count = in->input_count + in->output_count;
  bool any = false;
  for (int32_t k = 0; k < count; ++k) any |= buffer_of(runner, in, k)->count >= 0;
  if (!any) return NULL;
  shoal_type_t *types = SHOAL_NEW(&runner->arena, shoal_type_t, count);
  shoal_type_t *made = SHOAL_NEW(&runner->arena, shoal_type_t, in->output_count);
  shoal_bounded_t *items = SHOAL_NEW(&runner->arena, shoal_bounded_t, count);
  if (!types || !made || !items) return SHOAL_OOM();
  bounded_t b = {.runner = runner, .call = bound->call, .types = types, .items = items};
  b.call.inputs = types;
  b.call.outputs = types + in->input_count;
  for (int32_t k = 0; k < count; ++k) {
    const shoal_bound_buffer_t *part =
        k < in->input_count ? bound->inputs[k] : bound->outputs[k - in->input_count];
    const shoal_buffer_t *buffer = buffer_of(runner, in, k);
    types[k] = part->type;
    if (buffer->count >= 0) SHOAL_RETURN_IF_ERROR(add_rows(&b, k, part, bound->counts[k], buffer));
  }
  const int64_t most = items[0].whole;
  SHOAL_RETURN_IF_ERROR(check_rows(&b, most / 2, made));
  SHOAL_RETURN_IF_ERROR(check_rows(&b, most, made));
  launch->bounded_count = b.count;
  launch->bounded = items;
  return NULL;
}
