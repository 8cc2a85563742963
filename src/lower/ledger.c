// What a rank's arena holds when a graph needs most of it, by layer and kind. States and inputs
// stay; of the rest, what is alive at the moment when most is alive. What is then left of the arena
// lies between buffers, or is for other graphs: so the rows and `unused` add up to the arena.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "lower/account.h"
#include "plan/plan.h"
#include "program/bind.h"
#include "program/lives.h"
#include "program/program_impl.h"

typedef struct ledger {
  shoal_account_t account;
  const shoal_model_t *model;
  shoal_memory_kind_t memory;
  shoal_lives_t lives;
  int64_t *change;       // by time: how many bytes more are alive than before
  shoal_arena_t *arena;  // of what comes out
  shoal_index_t layers;
  SHOAL_VEC(shoal_ledger_row_t) rows;
} ledger_t;

// ---- rows -----------------------------------------------------------------------------

static const char *without(const char *prefix, const char *name) {
  const size_t length = strlen(prefix);
  return strncmp(name, prefix, length) == 0 ? name + length : name;
}

static shoal_status_t add(ledger_t *l, const char *name, shoal_ledger_kind_t kind, int64_t bytes) {
  const char *layer = without("update/", without("grad/", name));
  const size_t length = shoal_account_layer(layer);
  const uint64_t hash = shoal_hash_bytes(SHOAL_HASH_START, layer, length);
  if (bytes == 0) return NULL;
  for (int64_t at = -1, r; (r = shoal_index_next(&l->layers, hash, &at)) >= 0;) {
    shoal_ledger_row_t *row = &l->rows.items[r];
    if (strlen(row->layer) != length || memcmp(row->layer, layer, length) != 0) continue;
    row->bytes[kind] += bytes;
    return NULL;
  }
  shoal_ledger_row_t row = {.layer = shoal_arena_printf(l->arena, "%.*s", (int)length, layer)};
  row.bytes[kind] = bytes;
  if (!row.layer || !shoal_index_add(&l->layers, hash, l->rows.count) ||
      !SHOAL_PUSH(l->account.scratch, &l->rows, row))
    return SHOAL_OOM();
  return NULL;
}

// ---- kinds ----------------------------------------------------------------------------

static bool is_temporary(const shoal_buffer_t *buffer) {
  return buffer->kind == SHOAL_BUFFER_TEMP || buffer->kind == SHOAL_BUFFER_OUTPUT;
}

static shoal_ledger_kind_t kind_of(const ledger_t *l, const shoal_buffer_t *buffer) {
  switch (shoal_account_value(&l->account, buffer->name)) {
    case SHOAL_ORIGIN_FORWARD:
      return SHOAL_LEDGER_ACTIVATIONS;
    case SHOAL_ORIGIN_GRADIENT:
      return SHOAL_LEDGER_GRADIENTS;
    case SHOAL_ORIGIN_UPDATE:
      return SHOAL_LEDGER_OTHER;
    case SHOAL_ORIGIN_STATE:  // a copy of it in another layout
      return SHOAL_LEDGER_COMMUNICATION;
    case SHOAL_ORIGIN_INPUT:
      return SHOAL_LEDGER_INPUTS;
    default:
      break;
  }
  if (strncmp(buffer->name, "grad/", 5) == 0) return SHOAL_LEDGER_GRADIENTS;
  if (strncmp(buffer->name, "update/", 7) == 0) return SHOAL_LEDGER_OTHER;
  return buffer->parts ? SHOAL_LEDGER_COMMUNICATION : SHOAL_LEDGER_ACTIVATIONS;
}

static shoal_ledger_kind_t kind_of_state(const ledger_t *l, int32_t state) {
  const bool trained = state < l->model->states.count &&  // else an output kept to be fetched
                       l->model->states.items[state].options.trainable;
  return trained ? SHOAL_LEDGER_PARAMETERS : SHOAL_LEDGER_STATES;
}

// ---- the moment when most is alive ------------------------------------------------------

static void note(ledger_t *l, int64_t first, int64_t last, int64_t bytes) {
  if (first > last) return;
  l->change[first] += bytes;
  l->change[last + 1] -= bytes;
}

static bool lies_here(const ledger_t *l, const shoal_buffer_t *buffer) {
  return buffer->memory == l->memory;
}

// While an instruction runs, an output that lies over an input is one with it: the buffer, or NULL.
static const shoal_buffer_t *shared(const ledger_t *l, const shoal_instruction_t *in, int32_t o) {
  const shoal_class_t *class = l->account.rank_class;
  if (in->outputs[o] < 0) return NULL;
  const shoal_buffer_t *buffer = &class->buffers[in->outputs[o]];
  const int32_t over = shoal_program_overwritten(class, in, o);
  if (over < 0 || in->inputs[over] == in->outputs[o] || !is_temporary(buffer)) return NULL;
  return lies_here(l, buffer) && is_temporary(&class->buffers[in->inputs[over]]) ? buffer : NULL;
}

static void note_segment(ledger_t *l, int64_t s) {
  const shoal_segment_t *segment = &l->account.rank_class->segments[s];
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    const int64_t time = l->lives.starts[s] + i;
    if (l->memory == SHOAL_MEMORY_DEVICE) note(l, time, time, in->workspace);
    for (int32_t o = 0; o < in->output_count; ++o) {
      const shoal_buffer_t *buffer = shared(l, in, o);
      if (buffer) note(l, time, time, -buffer->bytes);
    }
  }
}

static int64_t find_peak(ledger_t *l) {
  const shoal_class_t *class = l->account.rank_class;
  for (int64_t i = 0; i < class->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &class->buffers[i];
    const shoal_life_t *life = &l->lives.buffers[i];
    if (lies_here(l, buffer) && is_temporary(buffer))
      note(l, life->first, life->last, buffer->bytes * shoal_buffer_slots(class, buffer));
  }
  for (int64_t s = 0; s < class->segment_count; ++s)
    if (l->lives.starts[s] >= 0) note_segment(l, s);
  int64_t peak = 0, most = -1;
  for (int64_t time = 0, alive = 0; time < l->lives.length; ++time) {
    alive += l->change[time];
    if (alive > most) most = alive, peak = time;
  }
  return peak;
}

// What the instruction at the peak needs besides, and what it does not.
static shoal_status_t add_instruction(ledger_t *l, const shoal_instruction_t *in) {
  if (l->memory == SHOAL_MEMORY_DEVICE && in->workspace > 0)
    SHOAL_RETURN_IF_ERROR(add(l, in->name, SHOAL_LEDGER_OTHER, in->workspace));
  for (int32_t o = 0; o < in->output_count; ++o) {
    const shoal_buffer_t *buffer = shared(l, in, o);
    if (buffer) SHOAL_RETURN_IF_ERROR(add(l, buffer->name, kind_of(l, buffer), -buffer->bytes));
  }
  return NULL;
}

static shoal_status_t fill(ledger_t *l, shoal_ledger_t *out) {
  const shoal_class_t *class = l->account.rank_class;
  const int64_t peak = find_peak(l);
  for (int64_t i = 0; i < class->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &class->buffers[i];
    const shoal_life_t *life = &l->lives.buffers[i];
    const int64_t bytes = buffer->bytes * shoal_buffer_slots(class, buffer);
    if (!lies_here(l, buffer)) continue;
    if (buffer->kind == SHOAL_BUFFER_STATE)
      SHOAL_RETURN_IF_ERROR(add(l, buffer->name, kind_of_state(l, buffer->state), bytes));
    if (buffer->kind == SHOAL_BUFFER_INPUT && life->first <= life->last)
      SHOAL_RETURN_IF_ERROR(add(l, buffer->name, SHOAL_LEDGER_INPUTS, bytes));
    if (is_temporary(buffer) && life->first <= peak && peak <= life->last)
      SHOAL_RETURN_IF_ERROR(add(l, buffer->name, kind_of(l, buffer), bytes));
  }
  for (int64_t s = 0; s < class->segment_count; ++s) {
    const int64_t at = peak - l->lives.starts[s];
    if (l->lives.starts[s] < 0 || at < 0 || at >= class->segments[s].instruction_count) continue;
    out->at = class->segments[s].instructions[at].name;
    SHOAL_RETURN_IF_ERROR(add_instruction(l, &class->segments[s].instructions[at]));
  }
  out->total = class->arena_bytes[l->memory];
  out->unused = out->total;
  for (int64_t r = 0; r < l->rows.count; ++r)
    for (int k = 0; k < SHOAL_LEDGER_KIND_COUNT; ++k) out->unused -= l->rows.items[r].bytes[k];
  out->count = l->rows.count;
  out->rows =
      shoal_arena_copy(l->arena, l->rows.items, (size_t)l->rows.count, sizeof *l->rows.items);
  return out->rows || out->count == 0 ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_lower_ledger(const shoal_plan_t *plan, const shoal_program_t *program,
                                  const char *graph, int32_t rank, shoal_memory_kind_t memory,
                                  shoal_arena_t *arena, shoal_ledger_t *out_ledger) {
  *out_ledger = (shoal_ledger_t){0};
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  ledger_t l = {.model = plan->model, .memory = memory, .arena = arena};
  shoal_status_t status =
      shoal_account_open(plan, program, graph ? graph : "train", rank, &scratch, &l.account);
  shoal_index_init(&scratch, &l.layers);
  if (!status) status = shoal_lives_find(l.account.rank_class, l.account.order, &scratch, &l.lives);
  if (!status) {
    l.change = SHOAL_NEW(&scratch, int64_t, l.lives.length + 1);
    status = l.change ? fill(&l, out_ledger) : SHOAL_OOM();
  }
  shoal_arena_deinit(&scratch);
  return status;
}

const char *shoal_ledger_kind_name(shoal_ledger_kind_t kind) {
  static const char *const names[] = {"parameters", "states",        "inputs", "activations",
                                      "gradients",  "communication", "other"};
  return kind < SHOAL_LEDGER_KIND_COUNT ? names[kind] : NULL;
}
