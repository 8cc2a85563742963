// Run by run, value by value in program order: the first difference is the one that is named.
//
// Three things need care. A buffer that is written in the micro-batch loop but whose layout does
// not speak of micro (an accumulator) is complete after the micro-batch that runs last: records
// before that do not count. A value may be made several times in one layout, computed again or
// gathered again: each time is a *round* of its own. And a state's name stands for the old value
// until the step's end: where its memory is written under that name, the last record in its resting
// layout is the new value; all others are the old one.
#include "prove/compare_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/type.h"

// A gradient may be exchanged in another type than its own: copies of it in that type are compared
// like any other, at what that type allows and less the scale that the plan gives them; and so are
// those that come behind them. What has not been reduced over any axis of the mesh yet comes before
// them.

static shoal_status_t intern(shoal_comparison_t *c, const char *text, int32_t *out_layout) {
  for (int64_t i = 0; i < c->texts.count; ++i)
    if (strcmp(c->texts.items[i], text) == 0) {
      *out_layout = (int32_t)i;
      return NULL;
    }
  shoal_layout_t *layout = SHOAL_NEW(c->arena, shoal_layout_t, 1);
  if (!layout) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(
      shoal_layout_parse(text, c->program->meshes, c->program->mesh_count, c->arena, layout));
  *out_layout = (int32_t)c->texts.count;
  if (!SHOAL_PUSH(c->arena, &c->texts, text) || !SHOAL_PUSH(c->arena, &c->layouts, layout))
    return SHOAL_OOM();
  return NULL;
}

static shoal_status_t read_rank(shoal_comparison_t *c, int32_t rank, const shoal_rank_log_t *log) {
  rank_records_t *r = &c->records[rank];
  SHOAL_RETURN_IF_ERROR(
      shoal_records_read(log->data, log->size, rank, c->arena, &r->items, &r->count));
  int64_t count = 0;
  for (int64_t i = 0; i < r->count; ++i) count += r->items[i].kind == SHOAL_RECORD_LAYOUT;
  r->layouts = SHOAL_NEW(c->arena, int32_t, count);
  if (!r->layouts) return SHOAL_OOM();
  for (int64_t i = 0; i < r->count; ++i)
    if (r->items[i].kind == SHOAL_RECORD_LAYOUT)
      SHOAL_RETURN_IF_ERROR(intern(c, r->items[i].name, &r->layouts[r->items[i].layout]));
  return NULL;
}

shoal_status_t shoal_comparison_create(const shoal_model_t *model, const shoal_program_t *program,
                                       int32_t ranks, const shoal_rank_log_t *logs,
                                       shoal_arena_t *arena, shoal_comparison_t **out_comparison) {
  shoal_comparison_t *c = SHOAL_NEW(arena, shoal_comparison_t, 1);
  if (!c) return SHOAL_OOM();
  *c = (shoal_comparison_t){.model = model, .program = program, .ranks = ranks, .arena = arena};
  c->records = SHOAL_NEW(arena, rank_records_t, ranks);
  c->resting = SHOAL_NEW(arena, int32_t, program->state_count);
  if (!c->records || !c->resting) return SHOAL_OOM();
  for (int64_t s = 0; s < program->state_count; ++s) {
    const char *text = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(program->states[s].layout, arena, &text));
    SHOAL_RETURN_IF_ERROR(intern(c, text, &c->resting[s]));
  }
  for (int32_t r = 0; r < ranks; ++r) SHOAL_RETURN_IF_ERROR(read_rank(c, r, &logs[r]));
  *out_comparison = c;
  return NULL;
}

// ---- messages -----------------------------------------------------------------------------------

static const char *describe(const shoal_comparison_t *c, const shoal_expected_t *e,
                            shoal_arena_t *arena) {
  char is[SHOAL_TYPE_SIZE];
  const char *text = shoal_arena_printf(arena, "graph '%s' (run %d), value '%s' %s",
                                        shoal_reference_graph(c->references[0])->name, c->run,
                                        e->name, shoal_type_format(&e->type, is, sizeof is));
  return text ? text : e->name;
}

static shoal_status_t differs(const shoal_comparison_t *c, const shoal_expected_t *e,
                              const char *where, int64_t index, shoal_cell_t got, shoal_cell_t want,
                              double allowed, shoal_arena_t *arena) {
  char at[160] = "";
  int64_t coords[SHOAL_MAX_RANK] = {0};
  shoal_shape_t position = {.rank = e->type.shape.rank};
  for (int32_t d = e->type.shape.rank; d-- > 0;) {
    coords[d] = index % e->type.shape.dims[d];
    index /= e->type.shape.dims[d];
    position.dims[d] = coords[d];
  }
  shoal_shape_format(&position, at, sizeof at);
  if (!shoal_dtype_is_float(e->type.dtype) && shoal_dtype_is_real(e->type.dtype)) {
    const uint8_t bits[] = {(uint8_t)got.i, (uint8_t)want.i};
    return SHOAL_ERROR(MISMATCH, "%s, %s, index %s: got %g, expected %g", describe(c, e, arena),
                       where, at, shoal_dtype_load(e->type.dtype, bits, 0),
                       shoal_dtype_load(e->type.dtype, bits, 1));
  }
  if (!shoal_dtype_is_float(e->type.dtype))
    return SHOAL_ERROR(MISMATCH, "%s, %s, index %s: got %lld, expected %lld", describe(c, e, arena),
                       where, at, (long long)got.i, (long long)want.i);
  return SHOAL_ERROR(
      MISMATCH, "%s, %s, index %s: got %.17g, expected %.17g (off by %.3g, allowed %.3g)",
      describe(c, e, arena), where, at, got.f, want.f, fabs(got.f - want.f), allowed);
}

// ---- one tensor ---------------------------------------------------------------------------------

// `rounded`: of a type narrower than the reference's, and not exact. Once the one-device run has
// overflowed, another order of rounding gives another infinity, or none that is a number; and where
// it stops just short of that, another order may overflow.
static bool cell_equal(const shoal_expected_t *e, bool rounded, shoal_cell_t got, shoal_cell_t want,
                       double allowed) {
  if (!e->floats) return got.i == want.i;
  if (rounded && shoal_reference_overflows(e->type.dtype, got.f, want.f, allowed)) return true;
  if (isinf(allowed)) return true;  // the one-device run overflows there, too: nothing is promised
  if (rounded && !isfinite(want.f)) return !isfinite(got.f);
  if (isnan(want.f) || isnan(got.f)) return isnan(want.f) && isnan(got.f);
  if (isinf(want.f) || isinf(got.f)) return want.f == got.f;
  return fabs(got.f - want.f) <= allowed;
}

// Is the value of a type that rounds more than the reference, or was it exchanged in one?
static bool is_rounded(const shoal_expected_t *e, bool exchanged) {
  const double epsilon = exchanged ? e->exchanged_epsilon : e->epsilon;
  return shoal_dtype_is_float(e->type.dtype) && !e->exact &&
         epsilon > shoal_dtype_epsilon(SHOAL_F64);
}

static void note_worst(const shoal_expected_t *e, double error, double allowed,
                       shoal_check_report_t *report) {
  if (!(allowed > 0) || isinf(allowed) || !(error / allowed > report->worst)) return;
  report->worst = error / allowed;
  size_t length = strlen(e->name);
  if (length >= sizeof report->worst_value) length = sizeof report->worst_value - 1;
  memcpy(report->worst_value, e->name, length);
  report->worst_value[length] = 0;
}

// The value differs: by rounding, perhaps?
static void note_difference(const shoal_expected_t *e, bool exchanged, shoal_cell_t got,
                            shoal_cell_t want, double allowed, shoal_check_report_t *report) {
  report->excess = is_rounded(e, exchanged) && isfinite(got.f) && isfinite(want.f)
                       ? fabs(got.f - want.f) / allowed
                       : 0;
}

// Expected elements of a part, from the whole.
static shoal_status_t expected_cells(const shoal_expected_t *e, const shoal_boxes_t *boxes,
                                     int64_t count, shoal_arena_t *arena,
                                     shoal_cell_t **out_cells) {
  shoal_cell_t *cells = SHOAL_NEW(arena, shoal_cell_t, count);
  if (!cells) return SHOAL_OOM();
  *out_cells = cells;
  if (e->floats) return shoal_boxes_pack(boxes, sizeof *cells, e->floats, cells);
  void *raw = shoal_arena_alloc(arena, (size_t)count, shoal_dtype_size(e->type.dtype));
  if (!raw) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_boxes_pack(boxes, shoal_dtype_size(e->type.dtype), e->own, raw));
  for (int64_t i = 0; i < count; ++i) cells[i].i = shoal_cell_exact(e->type.dtype, raw, i);
  return NULL;
}

static const char *where_of(const shoal_comparison_t *c, const entry_t *entry,
                            const shoal_group_parts_t *group, int64_t position, int64_t micro,
                            shoal_arena_t *arena) {
  bool joined = shoal_layout_is_partial(group->layout);
  const char *text = shoal_arena_printf(
      arena, "layout '%s', rank %d%s", c->texts.items[entry->layout],
      shoal_mesh_rank(group->layout->mesh, position), joined ? " (joined with the others)" : "");
  if (text && group->micro_count > 1)
    text = shoal_arena_printf(arena, "%s, micro-batch %lld", text, (long long)micro);
  return text ? text : "";
}

static shoal_status_t compare_part(const shoal_comparison_t *c, const entry_t *entry,
                                   const shoal_expected_t *e, const shoal_group_parts_t *group,
                                   int64_t position, int64_t micro, bool exchanged,
                                   shoal_arena_t *arena, shoal_check_report_t *report) {
  shoal_boxes_t boxes;
  SHOAL_RETURN_IF_ERROR(shoal_part_boxes(group, position, micro, arena, &boxes));
  shoal_shape_t shape = shoal_boxes_shape(&boxes);
  int64_t count = shoal_shape_count(&shape);
  if (count == 0) return NULL;
  const char *where = where_of(c, entry, group, position, micro, arena);
  shoal_cell_t *got = NULL, *want = NULL;
  shoal_status_t status = shoal_part_join(group, position, micro, count, arena, &got);
  if (status) return shoal_status_annotatef(status, "%s, %s", describe(c, e, arena), where);
  SHOAL_RETURN_IF_ERROR(expected_cells(e, &boxes, count, arena, &want));
  bool floats = e->floats != NULL, rounded = is_rounded(e, exchanged);
  double allowed = shoal_reference_allowed(c->references[0], e, exchanged), largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!cell_equal(e, rounded, got[i], want[i], allowed)) {
      shoal_place_t place;
      note_difference(e, exchanged, got[i], want[i], allowed, report);
      SHOAL_RETURN_IF_ERROR(shoal_boxes_place(&boxes, arena, &place));
      return differs(c, e, where, shoal_place_global(&place, i), got[i], want[i], allowed, arena);
    }
    if (floats && isfinite(got[i].f)) largest = fmax(largest, fabs(got[i].f - want[i].f));
  }
  note_worst(e, largest, allowed, report);
  ++report->parts;
  return NULL;
}

// The records of entries [first, last), all of one value in one layout and type, as it is made for
// the `round`th time. *out_more: it is made once more.
shoal_status_t shoal_comparison_gather(const shoal_comparison_t *c, int64_t first, int64_t last,
                                       const shoal_shape_t *shape, int32_t round,
                                       shoal_arena_t *arena, shoal_group_parts_t *out_group,
                                       bool *out_more) {
  const shoal_layout_t *layout = c->layouts.items[c->entries[first].layout];
  bool micro = shoal_layout_speaks_of_micro(layout);
  *out_group = (shoal_group_parts_t){.layout = layout,
                                     .type = {c->entries[first].record->dtype, *shape},
                                     .micro_count = micro ? c->program->micro : 1};
  int64_t size = shoal_mesh_size(layout->mesh);
  out_group->table = SHOAL_NEW(arena, const shoal_record_t *, out_group->micro_count *size);
  int32_t *seen = SHOAL_NEW(arena, int32_t, out_group->micro_count * size);
  const shoal_record_t **records = SHOAL_NEW(arena, const shoal_record_t *, last - first);
  bool *complete = SHOAL_NEW(arena, bool, last - first);
  if (!out_group->table || !seen || !records || !complete) return SHOAL_OOM();
  for (int64_t i = first; i < last; ++i) records[i - first] = c->entries[i].record;
  SHOAL_RETURN_IF_ERROR(shoal_parts_complete(records, last - first, layout->mesh, c->program->micro,
                                             arena, complete));
  *out_more = false;
  for (int64_t i = first; i < last; ++i) {
    const shoal_record_t *record = c->entries[i].record;
    int64_t position = shoal_mesh_position(layout->mesh, record->rank);
    int64_t m = micro && record->micro > 0 ? record->micro : 0;
    if (position < 0 || m >= out_group->micro_count)
      return SHOAL_ERROR(MISMATCH, "'%s': rank %d, micro-batch %d is not on its mesh", record->name,
                         record->rank, record->micro);
    if (!micro && !complete[i - first]) continue;
    const int32_t time = seen[m * size + position]++;
    if (time == round) out_group->table[m * size + position] = record;
    *out_more |= time > round;
  }
  return NULL;
}

// Behind the last entry of the same value in the same layout and type.
int64_t shoal_comparison_group_end(const shoal_comparison_t *c, int64_t first) {
  const entry_t *entry = &c->entries[first];
  int64_t last = first + 1;
  while (last < c->entry_count && c->entries[last].order == entry->order &&
         c->entries[last].layout == entry->layout &&
         c->entries[last].record->dtype == entry->record->dtype)
    ++last;
  return last;
}

// Over how many axes of the mesh a value is unreduced.
static int32_t count_partial(const shoal_comparison_t *c, const entry_t *entry) {
  const shoal_layout_t *layout = c->layouts.items[entry->layout];
  int32_t count = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    count += layout->cuts[i].kind == SHOAL_CUT_PARTIAL && layout->cuts[i].axis != SHOAL_AXIS_MICRO;
  return count;
}

// Has the value been exchanged in another type on its way to this form of it? It is made in the one
// that is unreduced over most axes.
static bool is_exchanged(const shoal_comparison_t *c, int64_t at, const shoal_expected_t *e) {
  const entry_t *entry = &c->entries[at];
  int32_t most = 0;
  if (entry->record->dtype != e->type.dtype) return true;
  if (entry->state >= 0) return false;
  while (at > 0 && c->entries[at - 1].order == entry->order) --at;
  for (; at < c->entry_count && c->entries[at].order == entry->order; ++at) {
    const int32_t count = count_partial(c, &c->entries[at]);
    if (count > most) most = count;
  }
  return count_partial(c, entry) < most;
}

// The records of a value's logarithms, which come of the same node, if log-sum-exp merges it.
shoal_status_t shoal_comparison_find_weights(const shoal_comparison_t *c, int64_t first,
                                             int32_t round, shoal_arena_t *arena,
                                             shoal_group_parts_t *group) {
  if (!shoal_layout_is_merged(group->layout)) return NULL;
  const shoal_graph_t *graph = shoal_reference_graph(c->references[c->references[1] != NULL]);
  const shoal_value_info_t *info = &graph->values.items[c->entries[first].order];
  if (info->source != SHOAL_FROM_NODE || info->output != 0) return NULL;
  const shoal_node_t *node = &graph->nodes.items[info->node];
  const int32_t lse = node->output_count == 2 ? node->outputs[1] : -1;
  shoal_group_parts_t *weights = SHOAL_NEW(arena, shoal_group_parts_t, 1);
  if (!weights) return SHOAL_OOM();
  for (int64_t i = 0, next; i < c->entry_count; i = next) {
    next = shoal_comparison_group_end(c, i);
    const shoal_layout_t *layout = c->layouts.items[c->entries[i].layout];
    bool more;
    if (c->entries[i].order != lse || !shoal_layout_is_weight(layout, group->layout)) continue;
    group->weights = weights;
    return shoal_comparison_gather(c, i, next, &graph->values.items[lse].type.shape, round, arena,
                                   weights, &more);
  }
  return SHOAL_ERROR(MISMATCH, "'%s' was made in parts, but not their log-sum-exp", info->name);
}

static shoal_status_t compare_group(const shoal_comparison_t *c, int64_t first, int64_t last,
                                    const shoal_expected_t *e, shoal_check_report_t *report) {
  const bool exchanged = is_exchanged(c, first, e);
  shoal_arena_t arena;
  shoal_status_t status = NULL;
  bool more = true;
  for (int32_t round = 0; more && !status; ++round) {
    shoal_arena_init(c->arena->allocator, &arena);
    shoal_group_parts_t group;
    status = shoal_comparison_gather(c, first, last, &e->type.shape, round, &arena, &group, &more);
    if (group.type.dtype != e->type.dtype) group.scale = e->exchanged_scale;
    if (!status) status = shoal_comparison_find_weights(c, first, round, &arena, &group);
    for (int64_t m = 0; m < group.micro_count && !status; ++m)
      for (int64_t p = 0; p < shoal_mesh_size(group.layout->mesh) && !status; ++p)
        if (shoal_part_leads(&group, p, m))
          status = compare_part(c, &c->entries[first], e, &group, p, m, exchanged, &arena, report);
    if (!status) ++report->values;
    shoal_arena_deinit(&arena);
  }
  return status;
}

// ---- one run ------------------------------------------------------------------------------------

// Into out_written[state]: does the rank write the state's own memory under the state's name? It
// does where a commit copies it there. A new value that was made in that memory has its own name,
// and then every record with the state's is of the old value.
static void find_written(const shoal_comparison_t *c, const char *graph, int32_t rank,
                         bool *out_written) {
  const shoal_class_t *rank_class = shoal_program_class_of(c->program, rank);
  for (int64_t o = 0; rank_class && o < rank_class->order_count; ++o) {
    const shoal_order_t *order = &rank_class->orders[o];
    if (strcmp(order->graph, graph) != 0) continue;
    for (int64_t k = 0; k < order->call_count; ++k) {
      const shoal_segment_t *segment = &rank_class->segments[order->calls[k].segment];
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        const shoal_instruction_t *in = &segment->instructions[i];
        for (int32_t n = 0; n < in->output_count; ++n) {
          if (in->outputs[n] < 0) continue;
          const shoal_buffer_t *to = &rank_class->buffers[in->outputs[n]];
          if (to->kind == SHOAL_BUFFER_STATE) out_written[to->state] = true;
        }
      }
    }
  }
}

static int by_order(const void *left, const void *right) {
  const entry_t *a = left, *b = right;
  if (a->order != b->order) return a->order < b->order ? -1 : 1;
  if (a->layout != b->layout) return a->layout < b->layout ? -1 : 1;
  if (a->record->dtype != b->record->dtype) return a->record->dtype < b->record->dtype ? -1 : 1;
  if (a->record->rank != b->record->rank) return a->record->rank < b->record->rank ? -1 : 1;
  return a->record->sequence < b->record->sequence ? -1 : a->record->sequence > b->record->sequence;
}

// The run's taps in program order.
shoal_status_t shoal_comparison_collect(shoal_comparison_t *c, shoal_arena_t *arena) {
  const shoal_reference_t *order = c->references[1] ? c->references[1] : c->references[0];
  const shoal_graph_t *graph = shoal_reference_graph(order);
  int64_t capacity = 0;
  for (int32_t r = 0; r < c->ranks; ++r) capacity += c->records[r].count;
  c->entries = SHOAL_NEW(arena, entry_t, capacity);
  c->entry_count = 0;
  if (!c->entries) return SHOAL_OOM();
  for (int32_t r = 0; r < c->ranks; ++r) {
    bool *written = SHOAL_NEW(arena, bool, c->program->state_count);
    if (!written) return SHOAL_OOM();
    find_written(c, graph->name, r, written);
    for (int64_t i = c->records[r].count; i-- > 0;) {
      const shoal_record_t *record = &c->records[r].items[i];
      if (record->kind != SHOAL_RECORD_TAP || record->run != c->run) continue;
      entry_t entry = {
          .record = record, .layout = c->records[r].layouts[record->layout], .state = -1};
      int32_t state = shoal_model_find_state(c->model, record->name);
      if (state >= 0 && written[state] && entry.layout == c->resting[state]) {
        written[state] = false;  // once, from the end
        entry.state = state;
        entry.order = graph->values.count + state;
      } else if ((entry.order = shoal_reference_find(order, record->name)) < 0) {
        return SHOAL_ERROR(MISMATCH,
                           "graph '%s': the program makes '%s', which the graph does not have",
                           graph->name, record->name);
      }
      c->entries[c->entry_count++] = entry;
    }
  }
  qsort(c->entries, (size_t)c->entry_count, sizeof *c->entries, by_order);
  return NULL;
}

static const shoal_expected_t *expected_of(const shoal_comparison_t *c, const entry_t *entry) {
  if (entry->state >= 0) return shoal_reference_state(c->references[0], entry->state);
  for (int i = 0; i < 2 && c->references[i]; ++i) {
    int32_t value = shoal_reference_find(c->references[i], entry->record->name);
    if (value >= 0) return shoal_reference_value(c->references[i], value);
  }
  return NULL;
}

static shoal_status_t compare_taps(const shoal_comparison_t *c, shoal_check_report_t *report) {
  for (int64_t i = 0, next; i < c->entry_count; i = next) {
    const entry_t *entry = &c->entries[i];
    next = shoal_comparison_group_end(c, i);
    const shoal_expected_t *e = expected_of(c, entry);
    if (!e)
      return SHOAL_ERROR(INTERNAL, "'%s' was not computed on one device", entry->record->name);
    SHOAL_RETURN_IF_ERROR(compare_group(c, i, next, e, report));
  }
  return NULL;
}

// Outputs and states, which every rank has whole.
static shoal_status_t compare_whole(const shoal_comparison_t *c, const shoal_record_t *record,
                                    shoal_check_report_t *report) {
  const shoal_graph_t *graph = shoal_reference_graph(c->references[0]);
  const shoal_expected_t *e = NULL;
  bool output = record->kind == SHOAL_RECORD_OUTPUT;
  if (!output)
    e = shoal_reference_state(c->references[0], shoal_model_find_state(c->model, record->name));
  for (int64_t o = 0; output && o < graph->outputs.count; ++o)
    if (strcmp(graph->outputs.items[o].name, record->name) == 0)
      e = shoal_reference_value(c->references[0], graph->outputs.items[o].value);
  if (!e) return SHOAL_ERROR(INTERNAL, "no output or state '%s'", record->name);
  bool floats = e->floats != NULL;
  double allowed = shoal_reference_allowed(c->references[0], e, true), largest = 0;
  int64_t count = shoal_shape_count(&e->type.shape);
  shoal_status_t status = NULL;
  shoal_arena_t arena;
  shoal_arena_init(c->arena->allocator, &arena);
  for (int64_t i = 0; i < count && !status; ++i) {
    shoal_cell_t got, want;
    if (floats)
      got.f = shoal_dtype_load(e->type.dtype, record->data, i), want.f = e->floats[i];
    else
      got.i = shoal_cell_exact(e->type.dtype, record->data, i),
      want.i = shoal_cell_exact(e->type.dtype, e->own, i);
    if (floats && isfinite(got.f)) largest = fmax(largest, fabs(got.f - want.f));
    if (cell_equal(e, is_rounded(e, true), got, want, allowed)) continue;
    note_difference(e, true, got, want, allowed, report);
    const char *where = shoal_arena_printf(
        &arena, "%s '%s' on rank %d", output ? "fetched as" : "state", record->name, record->rank);
    status = differs(c, e, where ? where : "", i, got, want, allowed, &arena);
  }
  shoal_arena_deinit(&arena);
  if (!status) note_worst(e, largest, allowed, report);
  ++report->parts;
  return status;
}

shoal_status_t shoal_comparison_compare(const shoal_comparison_t *c, shoal_check_report_t *report) {
  SHOAL_RETURN_IF_ERROR(compare_taps(c, report));
  for (int32_t r = 0; r < c->ranks; ++r)
    for (int64_t i = 0; i < c->records[r].count; ++i) {
      const shoal_record_t *record = &c->records[r].items[i];
      if (record->run == c->run &&
          (record->kind == SHOAL_RECORD_OUTPUT || record->kind == SHOAL_RECORD_STATE))
        SHOAL_RETURN_IF_ERROR(compare_whole(c, record, report));
    }
  return NULL;
}

shoal_status_t shoal_comparison_restart(const shoal_comparison_t *c) {
  // Every rank has them whole and, as just compared, alike; of both sessions, the one with taps
  // comes first.
  const rank_records_t *first = &c->records[0];
  for (int64_t i = first->count; i-- > 0;) {
    const shoal_record_t *record = &first->items[i];
    if (record->kind != SHOAL_RECORD_STATE || record->run != c->run) continue;
    for (int k = 0; k < 2 && c->references[k]; ++k)
      SHOAL_RETURN_IF_ERROR(shoal_reference_restart(c->references[k], record->name, record->data));
  }
  return NULL;
}
