// The generators. Letters as in the papers: p meshes, v stages a mesh, m micro-batches; d is a
// mesh, s a stage, i a micro-batch. Each writes the row of one mesh.
//
//   gpipe        Huang et al. 2019. All F, then all B.
//   1f1b         PipeDream-flush (Narayanan et al. 2021): p - d forwards ahead, then one B, one F.
//   1f1b+1       the same with p - d + 1 ahead, as EPL's PreferBackwardOptimizer.
//   interleaved  Narayanan et al. 2021, section 2.2: micro-batches in groups of p; a mesh runs a
//                group through its first stage, then its second ... Here the first group takes what
//                is left over, so that any number of micro-batches will do: behind it all groups
//                are full, and no mesh waits for one that is not. Fewer than p are one group.
//   zb-h1        Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.1: 1f1b, B is split;
//                mesh d runs the W of a micro-batch d micro-batches later, which fills the bubble
//                at the end, and as many are between F and W on all meshes as on the first.
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"
#include "plan/schedule.h"
#include "shoal/options.h"

typedef struct writer {
  const shoal_pipeline_t *pipeline;
  int32_t stage_count, *stages;  // of the row's mesh, ascending
  shoal_schedule_row_t *row;
} writer_t;

static void put(writer_t *w, shoal_work_t work, int32_t stage, int32_t micro) {
  w->row->entries[w->row->count++] = (shoal_schedule_entry_t){work, stage, micro};
}

static void write_gpipe(writer_t *w) {
  const int32_t m = w->pipeline->micro;
  for (int32_t k = 0; k < w->stage_count; ++k)
    for (int32_t i = 0; i < m; ++i) put(w, SHOAL_WORK_FORWARD, w->stages[k], i);
  for (int32_t k = w->stage_count; k-- > 0;)
    for (int32_t i = 0; i < m; ++i) put(w, SHOAL_WORK_BACKWARD, w->stages[k], i);
}

// `ahead` forwards, then a B and a F in turn; with `delay` >= 0 a W behind each B, for the
// micro-batch that many earlier, and the others at the end.
static void alternate(writer_t *w, int32_t ahead, int32_t delay) {
  const int32_t m = w->pipeline->micro, s = w->stages[0];
  int32_t next = 0, weights = 0;
  for (; next < m && next < ahead; ++next) put(w, SHOAL_WORK_FORWARD, s, next);
  for (int32_t i = 0; i < m; ++i) {
    put(w, SHOAL_WORK_BACKWARD, s, i);
    if (delay >= 0 && i >= delay) put(w, SHOAL_WORK_WEIGHT, s, weights++);
    if (next < m) put(w, SHOAL_WORK_FORWARD, s, next++);
  }
  for (; delay >= 0 && weights < m; ++weights) put(w, SHOAL_WORK_WEIGHT, s, weights);
}

static void write_1f1b(writer_t *w) {
  alternate(w, w->pipeline->stage_count - w->stages[0], -1);
}

static void write_1f1b_1(writer_t *w) {
  alternate(w, w->pipeline->stage_count - w->stages[0] + 1, -1);
}

static void write_zb_h1(writer_t *w) {
  alternate(w, w->pipeline->stage_count - w->stages[0], w->stages[0]);
}

// The k-th forward or backward of an interleaved mesh.
static shoal_schedule_entry_t interleaved(const writer_t *w, bool backward, int64_t k) {
  const int64_t p = w->pipeline->mesh_count, m = w->pipeline->micro, v = w->stage_count;
  const int64_t first = m < p ? m : p + m % p;  // of the first group
  int64_t base = 0, size = first;
  if (k >= first * v) {
    const int64_t group = (k - first * v) / (p * v);
    base = first + group * p;
    size = p;
  }
  const int64_t at = k - base * v, turn = at / size;
  return (shoal_schedule_entry_t){backward ? SHOAL_WORK_BACKWARD : SHOAL_WORK_FORWARD,
                                  w->stages[backward ? v - 1 - turn : turn],
                                  (int32_t)(base + at % size)};
}

// Ahead are the forwards up to the first of the last stage, for which the whole first group runs
// through the others, and two more for each mesh behind: one on the way there, one on the way back.
static void write_interleaved(writer_t *w) {
  const int64_t p = w->pipeline->mesh_count, m = w->pipeline->micro, v = w->stage_count;
  if (v == 1) {
    write_1f1b(w);
    return;
  }
  const int64_t first = m < p ? m : p + m % p, total = v * m;
  const int64_t ahead = 2 * (p - 1 - w->stages[0]) + (v - 1) * first + 1;
  int64_t next = 0;
  for (; next < total && next < ahead; ++next)
    w->row->entries[w->row->count++] = interleaved(w, false, next);
  for (int64_t k = 0; k < total; ++k) {
    w->row->entries[w->row->count++] = interleaved(w, true, k);
    if (next < total) w->row->entries[w->row->count++] = interleaved(w, false, next++);
  }
}

typedef struct generator {
  const char *name;
  void (*write)(writer_t *w);
  bool one_stage;    // a mesh; else as many as there are
  bool round_robin;  // stage s is on mesh s % p, equally many on each
  bool split;
} generator_t;

static const generator_t GENERATORS[] = {
    {"gpipe", write_gpipe, .one_stage = false},
    {"1f1b", write_1f1b, .one_stage = true},
    {"1f1b+1", write_1f1b_1, .one_stage = true},
    {"interleaved", write_interleaved, .round_robin = true},
    {"zb-h1", write_zb_h1, .one_stage = true, .split = true},
};
enum { GENERATOR_COUNT = sizeof GENERATORS / sizeof *GENERATORS };

const char *shoal_schedule_name(int64_t index) {
  return index >= 0 && index < GENERATOR_COUNT ? GENERATORS[index].name : NULL;
}

static shoal_status_t find_generator(const char *name, const generator_t **out_generator) {
  const char *names[GENERATOR_COUNT];
  for (int32_t i = 0; i < GENERATOR_COUNT; ++i) {
    names[i] = GENERATORS[i].name;
    *out_generator = &GENERATORS[i];
    if (strcmp(name, names[i]) == 0) return NULL;
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND,
      shoal_did_you_mean(name, names, GENERATOR_COUNT,
                         "there are gpipe, 1f1b, 1f1b+1, interleaved and zb-h1", &hint),
      "there is no schedule '%s'", name);
}

// ---- the pipeline ----------------------------------------------------------------------

static int32_t mesh_of(const shoal_pipeline_t *pipeline, int32_t stage) {
  return pipeline->stage_meshes ? pipeline->stage_meshes[stage] : stage % pipeline->mesh_count;
}

static shoal_status_t check_pipeline(const generator_t *generator, const shoal_pipeline_t *p) {
  if (p->mesh_count < 1 || p->stage_count < p->mesh_count ||
      p->stage_count > SHOAL_SCHEDULE_MAX_STAGES || p->micro < 1 || p->micro > SHOAL_PLAN_MAX_MICRO)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "every mesh has a stage, and there is at least one micro-batch",
        "no schedule has %d stages on %d meshes with %d micro-batches; %d stages and %d "
        "micro-batches are the most",
        p->stage_count, p->mesh_count, p->micro, SHOAL_SCHEDULE_MAX_STAGES, SHOAL_PLAN_MAX_MICRO);
  for (int32_t s = 0; s < p->stage_count; ++s)
    if (mesh_of(p, s) < 0 || mesh_of(p, s) >= p->mesh_count)
      return SHOAL_ERROR(INVALID_ARGUMENT, "stage %d is on mesh %d; there are %d", s, mesh_of(p, s),
                         p->mesh_count);
  if (generator->one_stage && p->stage_count != p->mesh_count)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "'interleaved' takes several stages on a mesh",
                            "schedule '%s' wants one stage on each mesh; there are %d on %d",
                            generator->name, p->stage_count, p->mesh_count);
  if (generator->round_robin && p->stage_count % p->mesh_count != 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use 'gpipe', or a table of your own",
                            "schedule '%s' wants equally many stages on each mesh; there are %d "
                            "on %d",
                            generator->name, p->stage_count, p->mesh_count);
  for (int32_t s = 0; s < p->stage_count && generator->round_robin; ++s)
    if (mesh_of(p, s) != mesh_of(p, s % p->mesh_count))
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use 'gpipe', or a table of your own",
                              "schedule '%s' wants the meshes in turn; stage %d is not on the mesh "
                              "of stage %d",
                              generator->name, s, s % p->mesh_count);
  return NULL;
}

static shoal_status_t name_mesh(const shoal_pipeline_t *p, int32_t mesh, shoal_arena_t *arena,
                                const char **out_name) {
  *out_name = p->meshes   ? shoal_arena_strdup(arena, p->meshes[mesh])
              : mesh < 26 ? shoal_arena_printf(arena, "%c", 'a' + mesh)
                          : shoal_arena_printf(arena, "m%d", mesh);
  return *out_name ? NULL : SHOAL_OOM();
}

// By mesh, how many stages it has and which, all in one array.
typedef struct stage_lists {
  int32_t *counts, *starts, *stages;
} stage_lists_t;

static shoal_status_t list_stages(const shoal_pipeline_t *p, shoal_arena_t *arena,
                                  stage_lists_t *out) {
  *out = (stage_lists_t){SHOAL_NEW(arena, int32_t, p->mesh_count),
                         SHOAL_NEW(arena, int32_t, p->mesh_count + 1),
                         SHOAL_NEW(arena, int32_t, p->stage_count)};
  if (!out->counts || !out->starts || !out->stages) return SHOAL_OOM();
  for (int32_t s = 0; s < p->stage_count; ++s) ++out->starts[mesh_of(p, s) + 1];
  for (int32_t mesh = 0; mesh < p->mesh_count; ++mesh) {
    if (out->starts[mesh + 1] == 0)
      return SHOAL_ERROR(INVALID_ARGUMENT, "mesh %d of the pipeline has no stage", mesh);
    out->starts[mesh + 1] += out->starts[mesh];
  }
  for (int32_t s = 0; s < p->stage_count; ++s) {
    const int32_t mesh = mesh_of(p, s);
    out->stages[out->starts[mesh] + out->counts[mesh]++] = s;
  }
  return NULL;
}

static shoal_status_t write_rows(const generator_t *generator, const shoal_pipeline_t *p,
                                 shoal_schedule_t *schedule, shoal_arena_t *arena) {
  const int64_t works = generator->split ? 3 : 2;
  stage_lists_t lists;
  SHOAL_RETURN_IF_ERROR(list_stages(p, arena, &lists));
  for (int32_t mesh = 0; mesh < p->mesh_count; ++mesh) {
    writer_t w = {.pipeline = p,
                  .stage_count = lists.counts[mesh],
                  .stages = lists.stages + lists.starts[mesh],
                  .row = &schedule->rows[mesh]};
    w.row->entries = SHOAL_NEW(arena, shoal_schedule_entry_t, works * w.stage_count * p->micro);
    if (!w.row->entries) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(name_mesh(p, mesh, arena, &w.row->mesh));
    generator->write(&w);
  }
  return NULL;
}

shoal_status_t shoal_schedule_create(const char *name, const shoal_pipeline_t *pipeline,
                                     shoal_arena_t *arena, const shoal_schedule_t **out_schedule) {
  *out_schedule = NULL;
  const generator_t *generator = NULL;
  SHOAL_RETURN_IF_ERROR(find_generator(name, &generator));
  SHOAL_RETURN_IF_ERROR(check_pipeline(generator, pipeline));
  shoal_schedule_t *schedule = SHOAL_NEW(arena, shoal_schedule_t, 1);
  if (!schedule) return SHOAL_OOM();
  *schedule = (shoal_schedule_t){.name = generator->name,
                                 .mesh_count = pipeline->mesh_count,
                                 .stage_count = pipeline->stage_count,
                                 .micro = pipeline->micro,
                                 .split = generator->split};
  schedule->rows = SHOAL_NEW(arena, shoal_schedule_row_t, pipeline->mesh_count);
  schedule->stage_meshes = SHOAL_NEW(arena, int32_t, pipeline->stage_count);
  if (!schedule->rows || !schedule->stage_meshes) return SHOAL_OOM();
  for (int32_t s = 0; s < pipeline->stage_count; ++s)
    schedule->stage_meshes[s] = mesh_of(pipeline, s);
  SHOAL_RETURN_IF_ERROR(write_rows(generator, pipeline, schedule, arena));
  *out_schedule = schedule;
  return NULL;
}
