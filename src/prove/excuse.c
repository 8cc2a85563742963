// One run compared, and what excuses a difference. Where rounding has flipped a decision, the
// one-device runs are repeated with the program's; where a value of a narrow type is off by more
// than is usual, the one-device runs are asked how far rounding alone moves it (shake.c).
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "prove/compare_impl.h"

// ---- decisions ----------------------------------------------------------------------------------

shoal_status_t shoal_comparison_assemble(const shoal_comparison_t *c, int64_t first, int64_t last,
                                         const shoal_shape_t *of, shoal_arena_t *arena,
                                         double *whole, double *known) {
  shoal_group_parts_t group;
  bool more;  // times it is made: they are equal
  SHOAL_RETURN_IF_ERROR(shoal_comparison_gather(c, first, last, of, 0, arena, &group, &more));
  SHOAL_RETURN_IF_ERROR(shoal_comparison_find_weights(c, first, 0, arena, &group));
  for (int64_t m = 0; m < group.micro_count; ++m)
    for (int64_t p = 0; p < shoal_mesh_size(group.layout->mesh); ++p) {
      if (!shoal_part_leads(&group, p, m)) continue;
      shoal_boxes_t boxes;
      SHOAL_RETURN_IF_ERROR(shoal_part_boxes(&group, p, m, arena, &boxes));
      shoal_shape_t shape = shoal_boxes_shape(&boxes);
      int64_t count = shoal_shape_count(&shape);
      if (count == 0) continue;
      shoal_cell_t *cells = NULL;
      double *ones = SHOAL_NEW(arena, double, count);
      if (!ones) return SHOAL_OOM();
      for (int64_t i = 0; i < count; ++i) ones[i] = 1;
      SHOAL_RETURN_IF_ERROR(shoal_part_join(&group, p, m, count, arena, &cells));
      SHOAL_RETURN_IF_ERROR(shoal_boxes_unpack(&boxes, sizeof *cells, cells, false, whole));
      SHOAL_RETURN_IF_ERROR(shoal_boxes_unpack(&boxes, sizeof *ones, ones, false, known));
    }
  return NULL;
}

// The entries of the last form the program brought a value into, in its own type: joined and
// rounded, where it came out unreduced. Entries of a value lie together, those of a layout in turn;
// layouts are not in order of time.
static bool last_form(const shoal_comparison_t *c, const shoal_value_info_t *info,
                      int64_t *out_first, int64_t *out_last) {
  bool found = false, reduced = false;
  int64_t newest = -1;
  for (int64_t first = 0, last; first < c->entry_count; first = last) {
    const entry_t *entry = &c->entries[first];
    last = shoal_comparison_group_end(c, first);
    if (entry->state >= 0 || entry->record->dtype != info->type.dtype) continue;
    if (strcmp(entry->record->name, info->name) != 0) continue;
    const bool whole = !shoal_layout_is_partial(c->layouts.items[entry->layout]);
    if (reduced && !whole) continue;
    if (whole == reduced && entry->record->sequence < newest) continue;
    found = true;
    reduced = whole;
    newest = entry->record->sequence;
    *out_first = first;
    *out_last = last;
  }
  return found;
}

static bool impose(void *self, const shoal_graph_t *graph, int32_t value, int64_t count,
                   bool decides, double allowed, double *elements) {
  const shoal_comparison_t *c = self;
  const shoal_value_info_t *info = &graph->values.items[value];
  int64_t first, last;
  if (!last_form(c, info, &first, &last)) return false;
  shoal_arena_t arena;
  shoal_arena_init(c->arena->allocator, &arena);
  double *whole = SHOAL_NEW(&arena, double, count), *known = SHOAL_NEW(&arena, double, count);
  shoal_status_t status = whole && known ? NULL : SHOAL_OOM();
  if (!status)
    status = shoal_comparison_assemble(c, first, last, &info->type.shape, &arena, whole, known);
  bool changed = false;
  for (int64_t i = 0; i < count && !status; ++i) {
    // Where the one-device run overflows, too, parts may be infinities that cancel: NaN.
    const bool flips = decides && (isinf(allowed) || fabs(whole[i] - elements[i]) <= allowed);
    if (known[i] != 1 || whole[i] == elements[i] || (isnan(whole[i]) && isnan(elements[i])))
      continue;
    if (!flips && !shoal_reference_overflows(info->type.dtype, whole[i], elements[i], allowed))
      continue;
    elements[i] = whole[i];
    changed = true;
  }
  shoal_status_free(
      status);  // a value that cannot be assembled is not imposed; comparing it will tell
  shoal_arena_deinit(&arena);
  return changed;
}

// ---- one run ------------------------------------------------------------------------------------

typedef struct attempt {
  shoal_status_t status;  // owned
  shoal_check_report_t report;
} attempt_t;

static bool differs(const attempt_t *attempt) {
  return attempt->status && shoal_status_code(attempt->status) == SHOAL_MISMATCH;
}

static attempt_t compare_again(const shoal_comparison_t *c, const shoal_check_report_t *before) {
  attempt_t attempt = {.report = *before};
  attempt.status = shoal_comparison_compare(c, &attempt.report);
  return attempt;
}

// Repeats the one-device runs with the program's decisions.
static attempt_t with_decisions(shoal_comparison_t *c, const shoal_check_report_t *before,
                                int64_t *out_imposed) {
  int64_t more = 0;
  *out_imposed = 0;
  attempt_t attempt = {.report = *before};
  attempt.status = shoal_reference_repeat(c->references[0], impose, c, out_imposed);
  if (!attempt.status && c->references[1])
    attempt.status = shoal_reference_repeat(c->references[1], impose, c, &more);
  if (!attempt.status && *out_imposed > 0) attempt = compare_again(c, before);
  attempt.report.decisions += *out_imposed;
  return attempt;
}

// Allows for what rounding does to the references' last run.
static attempt_t with_rounding(shoal_comparison_t *c, const shoal_check_report_t *before,
                               int64_t imposed) {
  attempt_t attempt = {.report = *before};
  for (int i = 0; i < 2 && c->references[i] && !attempt.status; ++i)
    attempt.status = shoal_reference_shake(c->references[i]);
  if (!attempt.status) attempt = compare_again(c, before);
  attempt.report.decisions += imposed;
  return attempt;
}

// Of a difference that stays, what was found first is told.
static void take_if_equal(attempt_t *first, attempt_t again) {
  if (!again.status) {
    shoal_status_free(first->status);
    *first = again;
  } else {
    shoal_status_free(again.status);
  }
}

shoal_status_t shoal_comparison_run(shoal_comparison_t *c, int32_t run,
                                    shoal_reference_t *reference, shoal_reference_t *expanded,
                                    shoal_check_report_t *report) {
  c->run = run;
  c->references[0] = reference;
  c->references[1] = expanded;
  shoal_arena_t arena;
  shoal_arena_init(c->arena->allocator, &arena);
  const shoal_check_report_t before = *report;
  attempt_t attempt = {.status = shoal_comparison_collect(c, &arena), .report = before};
  const bool open = run > 0 && !attempt.status;
  if (!attempt.status) attempt = compare_again(c, &before);
  double excess = attempt.report.excess;
  int64_t imposed = 0;
  if (open && differs(&attempt)) {
    attempt_t again = with_decisions(c, &before, &imposed);
    if (imposed > 0) excess = again.report.excess;
    if (again.status || imposed > 0) take_if_equal(&attempt, again);
  }
  if (open && differs(&attempt) && excess > 0)
    take_if_equal(&attempt, with_rounding(c, &before, imposed));
  *report = attempt.report;
  shoal_arena_deinit(&arena);
  return attempt.status;
}
