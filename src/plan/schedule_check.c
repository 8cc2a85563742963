// Proof that a table is complete and free of deadlock, in time linear in its entries, also where
// the table is wrong: a single entry F4000.60000 must not cost what a table of that size would. So
// completeness is found by counting first, and only a table that has as many entries as a complete
// one gets a place for each.
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "plan/schedule.h"

char shoal_work_letter(shoal_work_t work) {
  return "FBW"[work];
}

int32_t shoal_schedule_works(const shoal_schedule_t *schedule) {
  return schedule->split ? 3 : 2;
}

// The place of a work among all of a complete table.
static int64_t place_of(const shoal_schedule_t *t, const shoal_schedule_entry_t *e) {
  return ((int64_t)e->stage * t->micro + e->micro) * shoal_schedule_works(t) + (int64_t)e->work;
}

#define ENTRY_FORMAT "%c%d.%d"
#define ENTRY(e) shoal_work_letter((e)->work), (e)->stage, (e)->micro

// ---- complete --------------------------------------------------------------------------

// Stages are numbered without a gap, and each is on one mesh.
static shoal_status_t check_stages(const shoal_schedule_t *t, int64_t total) {
  for (int32_t s = 0; s < t->stage_count && s <= total; ++s)
    if (t->stage_meshes[s] < 0)
      return SHOAL_ERROR(INVALID_ARGUMENT, "the table has stage %d but no entry of stage %d",
                         t->stage_count - 1, s);
  for (int32_t r = 0; r < t->mesh_count; ++r)
    for (int64_t k = 0; k < t->rows[r].count; ++k) {
      const shoal_schedule_entry_t *e = &t->rows[r].entries[k];
      if (t->stage_meshes[e->stage] != r)
        return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "all work of a stage is on one mesh",
                                "mesh '%s', entry %lld: " ENTRY_FORMAT
                                " is here, but stage %d began on mesh '%s'",
                                t->rows[r].mesh, (long long)k, ENTRY(e), e->stage,
                                t->rows[t->stage_meshes[e->stage]].mesh);
    }
  return NULL;
}

// A (stage, work) with fewer entries than there are micro-batches lacks one of the first `count`+1.
static shoal_status_t report_missing(const shoal_schedule_t *t, shoal_schedule_entry_t missing,
                                     int64_t count, shoal_arena_t *scratch) {
  const shoal_schedule_row_t *row = &t->rows[t->stage_meshes[missing.stage]];
  bool *seen = SHOAL_NEW(scratch, bool, count + 1);
  if (!seen) return SHOAL_OOM();
  for (int64_t k = 0; k < row->count; ++k) {
    const shoal_schedule_entry_t *e = &row->entries[k];
    if (e->stage == missing.stage && e->work == missing.work && e->micro <= count)
      seen[e->micro] = true;
  }
  while (seen[missing.micro]) ++missing.micro;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "every stage has every work of every micro-batch once",
                          "mesh '%s' lacks " ENTRY_FORMAT ": the table has %d micro-batches",
                          row->mesh, ENTRY(&missing), t->micro);
}

static shoal_status_t check_complete(const shoal_schedule_t *t, shoal_arena_t *scratch) {
  const int32_t works = shoal_schedule_works(t);
  int64_t total = 0;
  for (int32_t r = 0; r < t->mesh_count; ++r) total += t->rows[r].count;
  if (total == 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a row for each mesh, like 'a: F0.0 F0.1 B0.0 B0.1'",
                            "the table has no entries");
  SHOAL_RETURN_IF_ERROR(check_stages(t, total));
  int64_t *counts = SHOAL_NEW(scratch, int64_t, (int64_t)t->stage_count * works);
  if (!counts) return SHOAL_OOM();
  for (int32_t r = 0; r < t->mesh_count; ++r)
    for (int64_t k = 0; k < t->rows[r].count; ++k)
      ++counts[t->rows[r].entries[k].stage * works + (int32_t)t->rows[r].entries[k].work];
  for (int32_t s = 0; s < t->stage_count; ++s)
    for (int32_t w = 0; w < works; ++w)
      if (counts[s * works + w] < t->micro)
        return report_missing(t, (shoal_schedule_entry_t){(shoal_work_t)w, s, 0},
                              counts[s * works + w], scratch);
  int64_t *first = SHOAL_NEW(scratch, int64_t, (int64_t)t->stage_count * t->micro * works);
  if (!first) return SHOAL_OOM();
  for (int32_t r = 0; r < t->mesh_count; ++r)
    for (int64_t k = 0; k < t->rows[r].count; ++k) {
      const shoal_schedule_entry_t *e = &t->rows[r].entries[k];
      int64_t *at = &first[place_of(t, e)];
      if (*at > 0)
        return SHOAL_ERROR_HINT(
            INVALID_ARGUMENT, "every stage has every work of every micro-batch once",
            "mesh '%s', entry %lld: " ENTRY_FORMAT " stands there twice, first as entry %lld",
            t->rows[r].mesh, (long long)k, ENTRY(e), (long long)*at - 1);
      *at = k + 1;
    }
  return NULL;
}

// ---- free of deadlock ------------------------------------------------------------------

int32_t shoal_schedule_needs(const shoal_schedule_t *t, const shoal_schedule_entry_t *e,
                             shoal_schedule_entry_t out_needs[2]) {
  int32_t count = 0;
  if (e->work == SHOAL_WORK_FORWARD && e->stage > 0)
    out_needs[count++] = (shoal_schedule_entry_t){SHOAL_WORK_FORWARD, e->stage - 1, e->micro};
  if (e->work == SHOAL_WORK_BACKWARD) {
    out_needs[count++] = (shoal_schedule_entry_t){SHOAL_WORK_FORWARD, e->stage, e->micro};
    if (e->stage < t->stage_count - 1)
      out_needs[count++] = (shoal_schedule_entry_t){SHOAL_WORK_BACKWARD, e->stage + 1, e->micro};
  }
  if (e->work == SHOAL_WORK_WEIGHT)
    out_needs[count++] = (shoal_schedule_entry_t){SHOAL_WORK_BACKWARD, e->stage, e->micro};
  return count;
}

typedef struct walk {
  const shoal_schedule_t *t;
  bool *done;     // by place
  int64_t *next;  // by row
  int32_t *work, work_count;
} walk_t;

// What the next entry of a row still waits for; false if it can run.
static bool waits(const walk_t *w, int32_t row, shoal_schedule_entry_t *out_need) {
  shoal_schedule_entry_t needs[2];
  const int32_t count = shoal_schedule_needs(w->t, &w->t->rows[row].entries[w->next[row]], needs);
  for (int32_t i = 0; i < count; ++i)
    if (!w->done[place_of(w->t, &needs[i])]) {
      *out_need = needs[i];
      return true;
    }
  return false;
}

// A row runs until it must wait; whom it lets go on is looked at next. A row can stand twice in the
// list: each entry puts at most one row there.
static void run_row(walk_t *w, int32_t row, shoal_schedule_visit_fn_t visit, void *self) {
  const shoal_schedule_t *t = w->t;
  shoal_schedule_entry_t need;
  for (; w->next[row] < t->rows[row].count && !waits(w, row, &need); ++w->next[row]) {
    const shoal_schedule_entry_t *e = &t->rows[row].entries[w->next[row]];
    w->done[place_of(t, e)] = true;
    if (visit) visit(self, row, w->next[row]);
    const int32_t other = e->work == SHOAL_WORK_FORWARD    ? e->stage + 1
                          : e->work == SHOAL_WORK_BACKWARD ? e->stage - 1
                                                           : -1;
    if (other >= 0 && other < t->stage_count && t->stage_meshes[other] != row)
      w->work[w->work_count++] = t->stage_meshes[other];
  }
}

static shoal_status_t walk_rows(const shoal_schedule_t *t, shoal_schedule_visit_fn_t visit,
                                void *self, shoal_arena_t *scratch, walk_t *out_walk) {
  int64_t total = 0;
  for (int32_t r = 0; r < t->mesh_count; ++r) total += t->rows[r].count;
  *out_walk = (walk_t){.t = t,
                       .done = SHOAL_NEW(scratch, bool, total),
                       .next = SHOAL_NEW(scratch, int64_t, t->mesh_count),
                       .work = SHOAL_NEW(scratch, int32_t, total + t->mesh_count)};
  if (!out_walk->done || !out_walk->next || !out_walk->work) return SHOAL_OOM();
  for (int32_t r = t->mesh_count; r-- > 0;) out_walk->work[out_walk->work_count++] = r;
  while (out_walk->work_count > 0)
    run_row(out_walk, out_walk->work[--out_walk->work_count], visit, self);
  return NULL;
}

shoal_status_t shoal_schedule_walk(const shoal_schedule_t *schedule,
                                   shoal_schedule_visit_fn_t visit, void *self) {
  shoal_arena_t scratch;
  shoal_arena_init(shoal_allocator_system(), &scratch);
  walk_t walk;
  shoal_status_t status = walk_rows(schedule, visit, self, &scratch, &walk);
  shoal_arena_deinit(&scratch);
  return status;
}

static shoal_status_t check_deadlock(const shoal_schedule_t *t, shoal_arena_t *scratch) {
  walk_t walk;
  shoal_schedule_entry_t need = {0};
  SHOAL_RETURN_IF_ERROR(walk_rows(t, NULL, NULL, scratch, &walk));
  for (int32_t r = 0; r < t->mesh_count; ++r) {
    if (walk.next[r] == t->rows[r].count || !waits(&walk, r, &need)) continue;
    const shoal_schedule_entry_t *e = &t->rows[r].entries[walk.next[r]];
    const int32_t other = t->stage_meshes[need.stage];
    if (other == r)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a row runs from left to right",
                              "mesh '%s', entry %lld: " ENTRY_FORMAT " needs " ENTRY_FORMAT
                              ", which stands behind it",
                              t->rows[r].mesh, (long long)walk.next[r], ENTRY(e), ENTRY(&need));
    const shoal_schedule_entry_t *stuck = &t->rows[other].entries[walk.next[other]];
    shoal_schedule_entry_t theirs = {0};
    if (!waits(&walk, other, &theirs)) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the rows wait for each other for ever",
                            "mesh '%s', entry %lld: " ENTRY_FORMAT " waits for " ENTRY_FORMAT
                            " of mesh '%s', which "
                            "stands still at entry %lld: " ENTRY_FORMAT " waits for " ENTRY_FORMAT,
                            t->rows[r].mesh, (long long)walk.next[r], ENTRY(e), ENTRY(&need),
                            t->rows[other].mesh, (long long)walk.next[other], ENTRY(stuck),
                            ENTRY(&theirs));
  }
  return NULL;
}

shoal_status_t shoal_schedule_check(const shoal_schedule_t *schedule) {
  shoal_arena_t scratch;
  shoal_arena_init(shoal_allocator_system(), &scratch);
  shoal_status_t status = check_complete(schedule, &scratch);
  if (!status) status = check_deadlock(schedule, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

// ---- fits ------------------------------------------------------------------------------

static const char *mesh_name(const shoal_pipeline_t *p, int32_t mesh, char buffer[16]) {
  if (p->meshes) return p->meshes[mesh];
  snprintf(buffer, 16, mesh < 26 ? "%c" : "m%d", mesh < 26 ? 'a' + mesh : mesh);
  return buffer;
}

shoal_status_t shoal_schedule_fits(const shoal_schedule_t *t, const shoal_pipeline_t *p) {
  char buffer[16];
  if (t->micro != p->micro)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give both the same number of micro-batches",
                            "the table has %d micro-batches, the meshes have micro=%d", t->micro,
                            p->micro);
  if (t->stage_count != p->stage_count)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "a stage begins wherever the forward pass goes to another mesh",
        "the table has %d stages, the graph has %d", t->stage_count, p->stage_count);
  for (int32_t s = 0; s < t->stage_count; ++s) {
    const int32_t mesh = p->stage_meshes ? p->stage_meshes[s] : s % p->mesh_count;
    const char *name = mesh_name(p, mesh, buffer);
    if (strcmp(t->rows[t->stage_meshes[s]].mesh, name) != 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "rows have the names of the plan's meshes",
                              "stage %d is on mesh '%s', the table has it on mesh '%s'", s, name,
                              t->rows[t->stage_meshes[s]].mesh);
  }
  return NULL;
}
