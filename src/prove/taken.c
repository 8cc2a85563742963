// Values that a model leaves to the program. What the summands of a gradient are that each rank
// clips by itself, one device cannot tell: only that they add up to the gradient. So the one-device
// runs take them from the program, and compute with these what follows: norms, factors and clipped
// gradients are compared like everything else. Of the summands themselves the sum is compared: what
// is missing from it is expected in the first of them. And each rank's must be what the rank had of
// the gradient, to the bit.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "prove/compare_impl.h"
#include "prove/reference_impl.h"

void shoal_reference_take(shoal_reference_t *r, shoal_take_fn_t take, void *self) {
  r->take = take;
  r->take_self = self;
}

// `taken` becomes what is expected: the program's rows, and in the first of them also what their
// sum lacks of `sum`, the one device's. Sums that are no numbers on both sides are as good as
// equal.
static void expect_rows(double *taken, const double *sum, int64_t count, int64_t length) {
  for (int64_t i = 0; i < length; ++i) {
    double have = 0;
    for (int64_t at = i; at < count; at += length) have += taken[at];
    if (isfinite(have) || isfinite(sum[i])) taken[i] += sum[i] - have;
  }
}

void shoal_reference_take_value(shoal_reference_t *r, int32_t value, shoal_tensor_t tensor) {
  const shoal_value_info_t *info = &r->graph->values.items[value];
  if (!r->take || r->failed || info->source != SHOAL_FROM_NODE) return;
  if (!r->graph->nodes.items[info->node].op->claimed) return;
  const int64_t count = shoal_shape_count(&tensor.shape), rows = tensor.shape.dims[0];
  if (rows < 2 || count == 0) return;  // there is nothing to leave open
  double *sum = SHOAL_NEW(&r->arena, double, count), *taken = SHOAL_NEW(&r->arena, double, count);
  r->failed = !sum || !taken;
  for (int64_t i = 0; i < count && !r->failed; ++i)
    sum[i] =
        shoal_dtype_load(tensor.dtype, tensor.data, i);  // one device's has it in its first row
  if (r->failed || !r->take(r->take_self, r->run, r->graph, value, count, taken)) return;
  for (int64_t i = 0; i < count; ++i) shoal_dtype_store(tensor.dtype, tensor.data, i, taken[i]);
  expect_rows(taken, sum, count, count / rows);
  if (r->side != SHAKEN) r->before[r->side][value] = taken;
}

// ---- what the program has -----------------------------------------------------------------------

// Did the rank have just that as the value of this name?
static bool had(const shoal_comparison_t *c, const char *name, const shoal_record_t *row) {
  const rank_records_t *records = &c->records[row->rank];
  bool found = false;
  for (int64_t i = 0; i < records->count && !found; ++i) {
    const shoal_record_t *record = &records->items[i];
    found = record->kind == SHOAL_RECORD_TAP && record->run == row->run &&
            record->dtype == row->dtype && record->bytes == row->bytes &&
            strcmp(record->name, name) == 0 &&
            memcmp(record->data, row->data, (size_t)row->bytes) == 0;
  }
  return found;
}

// The records of a value in one run that are what their ranks had of `source`, all in the layout
// that it was made in, as if nothing else had been recorded. Copies that went elsewhere do not
// count.
static shoal_status_t find_records(const shoal_comparison_t *c, int32_t run,
                                   const shoal_value_info_t *info, const char *source,
                                   shoal_arena_t *arena, shoal_comparison_t *out_alone) {
  int64_t capacity = 0;
  *out_alone = *c;
  out_alone->entry_count = 0;
  for (int32_t r = 0; r < c->ranks; ++r) capacity += c->records[r].count;
  out_alone->entries = SHOAL_NEW(arena, entry_t, capacity);
  if (!out_alone->entries) return SHOAL_OOM();
  for (int32_t r = 0; r < c->ranks; ++r)
    for (int64_t i = 0; i < c->records[r].count; ++i) {
      const shoal_record_t *record = &c->records[r].items[i];
      if (record->kind != SHOAL_RECORD_TAP || record->run != run ||
          record->dtype != info->type.dtype || strcmp(record->name, info->name) != 0)
        continue;
      const int32_t layout = c->records[r].layouts[record->layout];
      if (out_alone->entry_count > 0 && layout != out_alone->entries[0].layout) continue;
      if (!had(c, source, record)) continue;
      out_alone->entries[out_alone->entry_count++] =
          (entry_t){.record = record, .layout = layout, .state = -1};
    }
  return NULL;
}

bool shoal_comparison_take(void *self, int32_t run, const shoal_graph_t *graph, int32_t value,
                           int64_t count, double *elements) {
  const shoal_comparison_t *c = self;
  const shoal_value_info_t *info = &graph->values.items[value];
  const int32_t source = graph->nodes.items[info->node].inputs[0];
  shoal_comparison_t alone;
  shoal_arena_t arena;
  shoal_arena_init(c->arena->allocator, &arena);
  double *known = SHOAL_NEW(&arena, double, count);
  shoal_status_t status = known ? NULL : SHOAL_OOM();
  if (!status)
    status = find_records(c, run, info, graph->values.items[source].name, &arena, &alone);
  bool all = !status && alone.entry_count > 0;
  if (all)
    status = shoal_comparison_assemble(&alone, 0, alone.entry_count, &info->type.shape, &arena,
                                       elements, known);
  for (int64_t i = 0; all && !status && i < count; ++i) all = known[i] == 1;
  all = all && !status;
  shoal_status_free(status);  // what cannot be assembled is not taken; comparing it will tell
  shoal_arena_deinit(&arena);
  return all;
}
