// Memory by layer: what the states of each layer take of a rank, and what its forward pass leaves
// for the backward pass. Read off the program: what it planned is what is said.
//
// A layer is named by the scopes of a name up to the first that ends in a digit ("block0",
// "decoder/block1"), else by the first alone ("wte"). The forward pass *turns* where the first
// instruction of the backward side reads what it has made, or computes it again: what lies in
// memory across that moment is kept. What is made of a value only to be read on the backward side,
// as a copy from the host's memory, comes later and is not kept.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "lower/account.h"
#include "lower/build.h"
#include "program/bind.h"
#include "program/lives.h"

typedef struct account {
  const shoal_class_t *class;
  const shoal_graph_t *graph;
  shoal_arena_t *arena, *scratch;
  shoal_index_t nodes, values, layers;  // by name
  SHOAL_VEC(shoal_layer_memory_t) rows;
} account_t;

static uint64_t hash_of(const char *name) {
  return shoal_hash_string(SHOAL_HASH_START, name);
}

static const shoal_node_t *node_named(const account_t *a, const char *name) {
  for (int64_t at = -1, n; (n = shoal_index_next(&a->nodes, hash_of(name), &at)) >= 0;)
    if (strcmp(a->graph->nodes.items[n].name, name) == 0) return &a->graph->nodes.items[n];
  return NULL;
}

// Is it a value that a forward node makes?
static bool is_forward(const account_t *a, const char *name) {
  for (int64_t at = -1, v; (v = shoal_index_next(&a->values, hash_of(name), &at)) >= 0;) {
    const shoal_value_info_t *info = &a->graph->values.items[v];
    if (strcmp(info->name, name) == 0)
      return info->source == SHOAL_FROM_NODE &&
             a->graph->nodes.items[info->node].kind == SHOAL_NODE_FORWARD;
  }
  return false;
}

static shoal_status_t index_names(account_t *a) {
  shoal_index_init(a->scratch, &a->nodes);
  shoal_index_init(a->scratch, &a->values);
  shoal_index_init(a->scratch, &a->layers);
  for (int64_t n = 0; n < a->graph->nodes.count; ++n)
    if (!shoal_index_add(&a->nodes, hash_of(a->graph->nodes.items[n].name), n)) return SHOAL_OOM();
  for (int64_t v = 0; v < a->graph->values.count; ++v)
    if (!shoal_index_add(&a->values, hash_of(a->graph->values.items[v].name), v))
      return SHOAL_OOM();
  return NULL;
}

// ---- rows -----------------------------------------------------------------------------

static shoal_status_t row_of(account_t *a, const char *name, shoal_layer_memory_t **out_row) {
  const size_t length = shoal_account_layer(name);
  const uint64_t hash = shoal_hash_bytes(SHOAL_HASH_START, name, length);
  for (int64_t at = -1, r; (r = shoal_index_next(&a->layers, hash, &at)) >= 0;) {
    *out_row = &a->rows.items[r];
    const char *layer = (*out_row)->layer;
    if (strlen(layer) == length && memcmp(layer, name, length) == 0) return NULL;
  }
  const char *layer = shoal_arena_printf(a->arena, "%.*s", (int)length, name);
  if (!layer || !shoal_index_add(&a->layers, hash, a->rows.count) ||
      !SHOAL_PUSH(a->scratch, &a->rows, ((shoal_layer_memory_t){.layer = layer})))
    return SHOAL_OOM();
  *out_row = &a->rows.items[a->rows.count - 1];
  return NULL;
}

static shoal_status_t add_states(account_t *a, const shoal_model_t *model) {
  for (int64_t i = 0; i < a->class->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &a->class->buffers[i];
    if (buffer->kind != SHOAL_BUFFER_STATE || buffer->state >= model->states.count) continue;
    const shoal_state_info_t *state = &model->states.items[buffer->state];
    shoal_layer_memory_t *row;
    SHOAL_RETURN_IF_ERROR(row_of(a, state->name, &row));
    *(state->options.trainable ? &row->parameters : &row->others) += buffer->bytes;
  }
  return NULL;
}

// ---- the turn -------------------------------------------------------------------------

static bool reads_forward(const account_t *a, const shoal_instruction_t *in) {
  for (int32_t i = 0; i < in->input_count; ++i)
    if (in->inputs[i] >= 0 && a->class->buffers[in->inputs[i]].kind == SHOAL_BUFFER_TEMP &&
        is_forward(a, a->class->buffers[in->inputs[i]].name))
      return true;
  return false;
}

// Is this where the forward pass turns? `seen`, by node: it was computed before.
static bool turns(const account_t *a, const shoal_instruction_t *in, bool *seen) {
  const shoal_node_t *node = in->opcode == SHOAL_OPCODE_COMPUTE ? node_named(a, in->name) : NULL;
  if (!node) return false;
  const bool again = seen[node - a->graph->nodes.items];
  seen[node - a->graph->nodes.items] = true;
  return node->kind == SHOAL_NODE_FORWARD ? again : reads_forward(a, in);
}

// The time at which the forward pass turns; that of the end where it never does.
static int64_t find_turn(const account_t *a, const shoal_order_t *order, const shoal_lives_t *lives,
                         bool *seen) {
  int64_t time = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const int32_t s = order->calls[k].segment;
    const shoal_segment_t *segment = &a->class->segments[s];
    if (lives->starts[s] != time) continue;  // called before
    for (int64_t i = 0; i < segment->instruction_count; ++i, ++time)
      if (turns(a, &segment->instructions[i], seen)) return time;
  }
  return time;
}

static shoal_status_t add_kept(account_t *a, const shoal_order_t *order) {
  shoal_lives_t lives;
  SHOAL_RETURN_IF_ERROR(shoal_lives_find(a->class, order, a->scratch, &lives));
  bool *seen = SHOAL_NEW(a->scratch, bool, a->graph->nodes.count);
  if (!seen) return SHOAL_OOM();
  const int64_t turn = find_turn(a, order, &lives, seen);
  for (int64_t i = 0; i < a->class->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &a->class->buffers[i];
    const shoal_life_t *life = &lives.buffers[i];
    shoal_layer_memory_t *row;
    if (buffer->kind != SHOAL_BUFFER_TEMP || life->first >= turn || life->last < turn ||
        !is_forward(a, buffer->name))
      continue;
    SHOAL_RETURN_IF_ERROR(row_of(a, buffer->name, &row));
    row->kept[buffer->memory] += buffer->bytes * shoal_buffer_slots(a->class, buffer);
  }
  return NULL;
}

// ---- a class --------------------------------------------------------------------------

static shoal_status_t account(account_t *a, const shoal_plan_t *plan, const char *graph,
                              int64_t *out_count, const shoal_layer_memory_t **out_rows) {
  const shoal_order_t *order = NULL;
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    if (strcmp(plan->graphs[g].graph->name, graph) == 0) a->graph = plan->graphs[g].graph;
  for (int64_t o = 0; o < a->class->order_count; ++o)
    if (strcmp(a->class->orders[o].graph, graph) == 0) order = &a->class->orders[o];
  if (!a->graph || !order) return SHOAL_ERROR(NOT_FOUND, "the plan has no graph '%s'", graph);
  SHOAL_RETURN_IF_ERROR(index_names(a));
  SHOAL_RETURN_IF_ERROR(add_states(a, plan->model));
  SHOAL_RETURN_IF_ERROR(add_kept(a, order));
  *out_rows = shoal_arena_copy(a->arena, a->rows.items, (size_t)a->rows.count, sizeof **out_rows);
  if (!*out_rows) return SHOAL_OOM();
  *out_count = a->rows.count;
  return NULL;
}

shoal_status_t shoal_lower_layers(const shoal_plan_t *plan, const shoal_program_t *program,
                                  int64_t index, const char *graph, shoal_arena_t *arena,
                                  int64_t *out_count, const shoal_layer_memory_t **out_layers) {
  *out_count = 0;
  *out_layers = NULL;
  if (index < 0 || index >= program->class_count)
    return SHOAL_ERROR(INVALID_ARGUMENT, "the program has no class %lld", (long long)index);
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  account_t a = {.class = &program->classes[index], .arena = arena, .scratch = &scratch};
  shoal_status_t status = account(&a, plan, graph ? graph : "train", out_count, out_layers);
  shoal_arena_deinit(&scratch);
  return status;
}
