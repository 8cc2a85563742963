// A call that is checked: its data, running it with guards, and telling what is wrong with it.
#include <string.h>

#include "base/dtype.h"
#include "explore/check_ops.h"
#include "op/indices.h"
#include "rules/symbols.h"

enum { MOST_LINES = 5 };  // of one op's failures
enum { GUARD = 64, GUARD_BYTE = 0x5a, ALIGNMENT = 64 };

// ---- telling -----------------------------------------------------------------------------------

void check_say(const checker_t *c, const char *line) {
  if (c->options->line && line) c->options->line(c->options->line_self, line);
}

shoal_status_t check_failed(checker_t *c, const shoal_call_t *call, const char *what) {
  const char *text = c->op->name;
  if (!what) return SHOAL_OOM();
  if (++c->failed > MOST_LINES) return NULL;
  if (call) SHOAL_RETURN_IF_ERROR(probe_key(call, &c->arena, &text));
  check_say(c, shoal_arena_printf(&c->arena, "FAILED: %s: %s", text, what));
  if (c->failed > 1) return NULL;
  check_say(c, shoal_arena_printf(
                   &c->arena, "  again: shoal check ops %s --seed %llu --shapes %lld", c->op->name,
                   (unsigned long long)c->options->seed, (long long)c->options->shapes));
  return NULL;
}

shoal_status_t check_refused(checker_t *c, const shoal_call_t *call, const char *doing,
                             shoal_status_t status) {
  if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  const char *what = shoal_arena_printf(&c->arena, "%s: %s", doing, shoal_status_message(status));
  shoal_status_free(status);
  return check_failed(c, call, what);
}

// ---- data --------------------------------------------------------------------------------------

// How many indices the input of the example itself may hold.
static int64_t whole_range(const shoal_case_t *example, int32_t input) {
  const shoal_call_t call = {.op = example->op,
                             .input_count = example->input_count,
                             .output_count = shoal_op_outputs(example->op, example->attrs),
                             .inputs = example->inputs,
                             .attrs = example->attrs};
  return shoal_indices(&call, input);
}

shoal_status_t subject_make(checker_t *c, const shoal_case_t *example, const shoal_call_t *call,
                            uint64_t seed, subject_t *out) {
  shoal_type_t *outputs = SHOAL_NEW(&c->arena, shoal_type_t, call->output_count);
  if (!outputs) return SHOAL_OOM();
  *out = (subject_t){.data = *example, .call = *call, .seed = seed};
  out->call.outputs = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&out->call, outputs));
  out->call.outputs = outputs;
  out->data.attrs = (shoal_attr_value_t *)call->attrs;
  for (int32_t i = 0; i < call->input_count; ++i) {
    out->data.inputs[i] = call->inputs[i];
    if (shoal_dtype_is_real(call->inputs[i].dtype)) continue;
    const int64_t indices = shoal_indices(&out->call, i);
    if (indices <= 0) continue;
    out->data.first[i] = 0;
    // An example may leave some out: a row that is padding has no gradient.
    if (out->data.limit[i] >= whole_range(example, i) || indices < out->data.limit[i]) {
      out->data.limit[i] = indices;
    }
  }
  out->call.inputs = out->data.inputs;
  return NULL;
}

static void *guarded(checker_t *c, size_t bytes, int garbage) {
  char *memory = shoal_arena_alloc(&c->arena, 1, bytes + GUARD + ALIGNMENT);
  if (!memory) return NULL;
  memory += (ALIGNMENT - (uintptr_t)memory % ALIGNMENT) % ALIGNMENT;
  memset(memory, garbage, bytes);
  memset(memory + bytes, GUARD_BYTE, GUARD);
  return memory;
}

static bool is_guarded(const void *memory, size_t bytes) {
  static const char guard[GUARD] = {[0 ... GUARD - 1] = (char)GUARD_BYTE};
  return memcmp((const char *)memory + bytes, guard, GUARD) == 0;
}

shoal_status_t check_tensor(checker_t *c, const shoal_type_t *type, int garbage,
                            shoal_tensor_t *out) {
  *out = (shoal_tensor_t){.dtype = type->dtype, .shape = type->shape};
  out->data = guarded(c, shoal_tensor_bytes(out), garbage);
  return out->data ? NULL : SHOAL_OOM();
}

shoal_status_t check_copy(checker_t *c, const shoal_tensor_t *from, shoal_tensor_t *out) {
  const shoal_type_t type = {from->dtype, from->shape};
  SHOAL_RETURN_IF_ERROR(check_tensor(c, &type, 0, out));
  const size_t bytes = shoal_tensor_bytes(from);
  if (bytes) memcpy(out->data, from->data, bytes);
  return NULL;
}

shoal_status_t subject_inputs(checker_t *c, const subject_t *s, shoal_tensor_t **out_inputs) {
  shoal_tensor_t *inputs = SHOAL_NEW(&c->arena, shoal_tensor_t, s->call.input_count);
  if (!inputs) return SHOAL_OOM();
  for (int32_t i = 0; i < s->call.input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_tensor(c, &s->call.inputs[i], 0, &inputs[i]));
    shoal_case_fill(&s->data, i, s->seed, inputs[i]);
  }
  *out_inputs = inputs;
  return NULL;
}

int64_t check_differs(const shoal_tensor_t *a, const shoal_tensor_t *b) {
  const size_t bytes = shoal_tensor_bytes(a), size = shoal_dtype_size(a->dtype);
  if (bytes == 0 || memcmp(a->data, b->data, bytes) == 0) return -1;
  int64_t element = 0;
  while (memcmp((const char *)a->data + (size_t)element * size,
                (const char *)b->data + (size_t)element * size, size) == 0) {
    ++element;
  }
  return element;
}

// ---- running -----------------------------------------------------------------------------------

shoal_status_t check_run_on(checker_t *c, const shoal_call_t *call, const shoal_tensor_t *inputs,
                            const shoal_tensor_t *outputs, int garbage) {
  const int64_t bytes = call->op->workspace ? call->op->workspace(call) : 0;
  void *workspace = guarded(c, bytes > 0 ? (size_t)bytes : 0, garbage);
  if (!workspace) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(call->op->kernel(call, inputs, outputs, workspace));
  if (!is_guarded(workspace, bytes > 0 ? (size_t)bytes : 0)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "it writes behind its workspace");
  }
  for (int32_t i = 0; i < call->output_count; ++i) {
    if (is_guarded(outputs[i].data, shoal_tensor_bytes(&outputs[i]))) continue;
    return SHOAL_ERROR(INVALID_ARGUMENT, "it writes behind the end of output %d", (int)i);
  }
  return NULL;
}

shoal_status_t check_run(checker_t *c, const shoal_call_t *call, const shoal_tensor_t *inputs,
                         int garbage, shoal_tensor_t **out_outputs) {
  shoal_tensor_t *outputs = SHOAL_NEW(&c->arena, shoal_tensor_t, call->output_count);
  if (!outputs) return SHOAL_OOM();
  for (int32_t i = 0; i < call->output_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_tensor(c, &call->outputs[i], garbage, &outputs[i]));
  }
  *out_outputs = outputs;
  return check_run_on(c, call, inputs, outputs, garbage);
}
