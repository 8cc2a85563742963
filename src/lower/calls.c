// The order of a class: which of its segments it calls, with which micro-batch. Without a schedule
// each segment of the loop runs for all micro-batches before the next one starts; with one, the
// loop is the row of the class's mesh.
#include "base/status.h"
#include "lower/build.h"
#include "lower/loop.h"

typedef SHOAL_VEC(shoal_segment_call_t) calls_t;

static shoal_status_t call(const build_t *b, calls_t *calls, int32_t segment, int64_t micro) {
  if (segment < 0) return NULL;
  const shoal_segment_call_t one = {.segment = segment, .micro = (int32_t)micro};
  return SHOAL_PUSH(b->arena, calls, one) ? NULL : SHOAL_OOM();
}

// The row of the mesh that the class is on; NULL: none. No rank is on two of them.
static const shoal_schedule_row_t *row_of(const graph_build_t *graph, uint64_t mask) {
  const loop_plan_t *loop = graph->loop;
  for (int32_t k = 0; k < loop->stages.count; ++k)
    if (mask >> loop->stages.meshes[k] & 1)
      return &loop->schedule->rows[loop->schedule->stage_meshes[k]];
  return NULL;
}

static shoal_status_t call_row(const build_t *b, const graph_build_t *graph, uint64_t mask,
                               const int32_t *segments, calls_t *calls) {
  const shoal_schedule_row_t *row = row_of(graph, mask);
  for (int64_t k = 0; row && k < row->count; ++k) {
    const shoal_schedule_entry_t *e = &row->entries[k];
    const int32_t segment =
        graph->loop->segments[shoal_lower_place_of(graph->loop, e->work, e->stage)];
    if (segment >= 0) SHOAL_RETURN_IF_ERROR(call(b, calls, segments[segment], e->micro));
  }
  return NULL;
}

shoal_status_t shoal_lower_calls(const build_t *b, const graph_build_t *graph, uint64_t mask,
                                 const int32_t *segments, shoal_order_t *out_order) {
  calls_t calls = {0};
  bool looped = false;
  for (int64_t s = 0; s < graph->segments.count; ++s) {
    const bool loop = graph->segments.items[s].phase == PHASE_LOOP;
    if (loop && graph->loop) {
      if (!looped) SHOAL_RETURN_IF_ERROR(call_row(b, graph, mask, segments, &calls));
      looped = true;
      continue;
    }
    for (int64_t m = 0; m < (loop ? b->program->micro : 1); ++m)
      SHOAL_RETURN_IF_ERROR(call(b, &calls, segments[s], loop ? m : -1));
  }
  *out_order = (shoal_order_t){graph->name, calls.count, calls.items};
  return NULL;
}
