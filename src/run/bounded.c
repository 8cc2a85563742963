// Bounded sizes: a compute instruction on buffers whose number of valid rows is read from another
// buffer when it runs. The kernel sees tensors of that many rows; the memory stays where the plan
// put it, and copies, feeds, fetches and communication move whole buffers. Rows are counted in the
// whole value: a rank takes of its part those that lie among the first n.
//
// A number that an op gets as an attribute was bound at load, for all rows: ops with such
// attributes about a bounded buffer are refused there. Runs on a queue and views the memory, as
// communication does.
#include "base/dtype.h"
#include "base/status.h"
#include "run/run_impl.h"

typedef struct bound_rows {
  int32_t operand;   // inputs, then outputs
  const char *name;  // of the count
  shoal_address_t count;
  shoal_dtype_t dtype;  // i32 or i64
  int64_t whole;        // rows at most
  const shoal_dim_part_t *part;
} bound_rows_t;

struct shoal_run_bounded {
  shoal_runner_t *runner;
  const shoal_instruction_t *instruction;
  const shoal_launch_t *launch;
  shoal_call_t call;        // of `types`
  shoal_type_t *types;      // inputs, then outputs
  shoal_tensor_t *tensors;  // likewise
  int32_t row_count;
  bound_rows_t *rows;
};

// ---- on the queue ---------------------------------------------------------------------

// Of the first n rows of the whole, those in the part; they are its first ones.
static int64_t rows_among(const shoal_dim_part_t *part, int64_t n) {
  int64_t rows = 0;
  for (int32_t i = 0; i < part->held_count && part->held[i].start < n; ++i) {
    int64_t left = n - part->held[i].start;
    rows += left < part->held[i].size ? left : part->held[i].size;
  }
  return rows;
}

static shoal_status_t read_counts(shoal_run_bounded_t *b) {
  for (int32_t i = 0; i < b->row_count; ++i) {
    const bound_rows_t *rows = &b->rows[i];
    void *data;
    SHOAL_RETURN_IF_ERROR(
        shoal_run_view(b->runner, rows->count, (int64_t)shoal_dtype_size(rows->dtype), &data));
    int64_t n = rows->dtype == SHOAL_I32 ? *(const int32_t *)data : *(const int64_t *)data;
    if (n < 0 || n > rows->whole)
      return SHOAL_ERROR(INVALID_ARGUMENT, "count '%s' is %lld; '%s' has room for %lld rows",
                         rows->name, (long long)n, b->instruction->name, (long long)rows->whole);
    b->types[rows->operand].shape.dims[0] = rows_among(rows->part, n);
  }
  return NULL;
}

static shoal_status_t run(shoal_run_bounded_t *b) {
  const shoal_launch_t *launch = b->launch;
  const shoal_call_t *call = &b->call;
  void *data;
  if (launch->predicate) {
    SHOAL_RETURN_IF_ERROR(shoal_run_view(b->runner, *launch->predicate, 1, &data));
    if (!*(const uint8_t *)data) return NULL;
  }
  SHOAL_RETURN_IF_ERROR(read_counts(b));
  for (int32_t k = 0; k < call->input_count + call->output_count; ++k) {
    int64_t bytes;
    bool input = k < call->input_count;
    SHOAL_RETURN_IF_ERROR(
        shoal_dtype_bytes(b->types[k].dtype, shoal_shape_count(&b->types[k].shape), &bytes));
    SHOAL_RETURN_IF_ERROR(shoal_run_view(
        b->runner, input ? launch->inputs[k] : launch->outputs[k - call->input_count], bytes,
        &data));
    b->tensors[k] = (shoal_tensor_t){data, b->types[k].dtype, b->types[k].shape};
  }
  shoal_tensor_t *outputs = b->tensors + call->input_count;
  if (launch->provider) return launch->provider(launch->provider_self, call, b->tensors, outputs);
  SHOAL_RETURN_IF_ERROR(
      shoal_run_view(b->runner, launch->workspace, b->instruction->workspace, &data));
  return call->op->kernel(call, b->tensors, outputs, data);
}

shoal_status_t shoal_run_bounded(void *self) {
  shoal_run_bounded_t *b = self;
  shoal_status_t status = run(b);
  if (!status) return NULL;
  return shoal_status_annotatef(status, "rank %d, '%s'", b->runner->rank, b->instruction->name);
}

// ---- at load --------------------------------------------------------------------------

static bool is_about(const shoal_attr_schema_t *attr, int32_t operand, int32_t input_count) {
  if (attr->role != SHOAL_ROLE_SIZE && attr->role != SHOAL_ROLE_POSITION &&
      attr->role != SHOAL_ROLE_PLACE)
    return false;
  if (attr->kind == SHOAL_ATTR_INT && attr->dim > 0) return false;  // of another dim than the rows
  return operand < input_count ? attr->operand == SHOAL_INPUT(operand)
                               : attr->operand == SHOAL_OUTPUT(operand - input_count);
}

// Does the op make of n rows what the outputs then have?
static shoal_status_t check_rows(shoal_run_bounded_t *b, int64_t n, shoal_type_t *made) {
  for (int32_t i = 0; i < b->row_count; ++i)
    b->types[b->rows[i].operand].shape.dims[0] = rows_among(b->rows[i].part, n);
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

static shoal_status_t add_rows(shoal_run_bounded_t *b, int32_t operand,
                               const shoal_bound_buffer_t *part, const shoal_bound_buffer_t *at,
                               const shoal_buffer_t *buffer) {
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
  b->rows[b->row_count++] = (bound_rows_t){.operand = operand,
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

shoal_status_t shoal_run_bounded_init(shoal_runner_t *runner,
                                      const shoal_bound_instruction_t *bound,
                                      const shoal_launch_t *launch,
                                      shoal_run_bounded_t **out_bounded) {
  const shoal_instruction_t *in = bound->instruction;
  int32_t count = in->input_count + in->output_count;
  bool any = false;
  *out_bounded = NULL;
  for (int32_t k = 0; k < count; ++k) any |= buffer_of(runner, in, k)->count >= 0;
  if (!any) return NULL;
  shoal_run_bounded_t *b = SHOAL_NEW(&runner->arena, shoal_run_bounded_t, 1);
  shoal_type_t *types = SHOAL_NEW(&runner->arena, shoal_type_t, count);
  shoal_type_t *made = SHOAL_NEW(&runner->arena, shoal_type_t, in->output_count);
  shoal_tensor_t *tensors = SHOAL_NEW(&runner->arena, shoal_tensor_t, count);
  bound_rows_t *rows = SHOAL_NEW(&runner->arena, bound_rows_t, count);
  if (!b || !types || !made || !tensors || !rows) return SHOAL_OOM();
  *b = (shoal_run_bounded_t){.runner = runner,
                             .instruction = in,
                             .launch = launch,
                             .call = bound->call,
                             .types = types,
                             .tensors = tensors,
                             .rows = rows};
  b->call.inputs = types;
  b->call.outputs = types + in->input_count;
  for (int32_t k = 0; k < count; ++k) {
    const shoal_bound_buffer_t *part =
        k < in->input_count ? bound->inputs[k] : bound->outputs[k - in->input_count];
    const shoal_buffer_t *buffer = buffer_of(runner, in, k);
    types[k] = part->type;
    if (buffer->count >= 0) SHOAL_RETURN_IF_ERROR(add_rows(b, k, part, bound->counts[k], buffer));
  }
  const int64_t most = b->rows[0].whole;
  SHOAL_RETURN_IF_ERROR(check_rows(b, most / 2, made));
  SHOAL_RETURN_IF_ERROR(check_rows(b, most, made));
  *out_bounded = b;
  return NULL;
}
