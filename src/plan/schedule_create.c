// The generators. Letters as in the papers: p meshes, v stages a mesh, m micro-batches; d is a
// mesh, s a stage, i a micro-batch. Each writes the row of one mesh.
//
//   gpipe        Huang et al. 2019. All F, then all B.
//   1f1b         PipeDream-flush (Narayanan et al. 2021): p - d forwards ahead, then one B, one F.
//   1f1b+1       the same with p - d + 1 ahead, as EPL's PreferBackwardOptimizer.
//   interleaved  Narayanan et al. 2021, section 2.2: micro-batches in groups; a mesh runs a group
//                through its first stage, then its second ... The paper's groups have p members, so
//                that the first comes back from the last mesh just when the group is through, if
//                moving it takes no time. Here they have at least p + 1, of nearly equal size and
//                the larger first, so that any number of micro-batches will do and moving them
//                hides behind the others. Fewer than 2 (p + 1) are one group.
//   zb-h1        Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.1: 1f1b, B is split;
//                mesh d runs the W of a micro-batch d micro-batches later, which fills the bubble
//                at the end, and as many are between F and W on all meshes as on the first.
//   zb-h2        section 2.2: the same with 2 (p - d) - 1 forwards ahead and W 2 d later, which
//                fills the bubble at the beginning, too. The meshes end one after the other, as
//                they begin, so that the next step must not wait for all of them.
//   zb-v         section 6: mesh d has stage d and stage 2 p - 1 - d, so that the loss is where the
//                input is, and the memory of zb-h1 is enough for no bubble if F, B and W are equal.
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

static void write_zb_h2(writer_t *w) {
  alternate(w, 2 * (w->pipeline->stage_count - w->stages[0]) - 1, 2 * w->stages[0]);
}

// A mesh of zb-v: the next F, B and W of its stage on the way there (0) and of that on the way back
// (1). The order is that of at least 2 p - 1 micro-batches; those that there are not are left out.
typedef struct turning {
  writer_t *w;
  int32_t next[2][SHOAL_WORK_COUNT];
} turning_t;

static void turn(turning_t *t, shoal_work_t work, int32_t way) {
  const int32_t micro = t->next[way][work]++;
  if (micro < t->w->pipeline->micro) put(t->w, work, t->w->stages[way], micro);
}

static void turn_back(turning_t *t, int32_t way) {
  turn(t, SHOAL_WORK_BACKWARD, way);
  turn(t, SHOAL_WORK_WEIGHT, way);
}

// The mesh at which the pipeline turns has both its stages as one where nothing lies between them:
// p micro-batches ahead, and no W among the last p - 1.
static void write_zb_v_turn(writer_t *w) {
  const int32_t m = w->pipeline->micro, p = w->pipeline->mesh_count, s = w->stages[0];
  int32_t next = 0, weights = 0;
  for (; next < m && next < p; ++next) put(w, SHOAL_WORK_FORWARD, s, next);
  for (int32_t i = 0; i < m; ++i) {
    put(w, SHOAL_WORK_BACKWARD, s, i);
    if (i <= m - p) put(w, SHOAL_WORK_WEIGHT, s, weights++);
    if (next < m) put(w, SHOAL_WORK_FORWARD, s, next++);
  }
  while (weights < m) put(w, SHOAL_WORK_WEIGHT, s, weights++);
}

static void write_zb_v(writer_t *w) {
  const int32_t p = w->pipeline->mesh_count, d = w->stages[0];
  const int32_t m = w->pipeline->micro > 2 * p - 1 ? w->pipeline->micro : 2 * p - 1;
  turning_t t = {.w = w};
  if (w->stage_count == 1) {
    write_zb_v_turn(w);
    return;
  }
  for (int32_t k = 0; k < 2 * (p - d) - 1; ++k) turn(&t, SHOAL_WORK_FORWARD, 0);
  for (int32_t k = 0; k < d; ++k) {  // the first come back
    turn(&t, SHOAL_WORK_FORWARD, 1);
    turn(&t, SHOAL_WORK_FORWARD, 0);
  }
  for (int32_t k = d; k < p; ++k) {  // the first gradients
    turn(&t, SHOAL_WORK_FORWARD, 1);
    turn_back(&t, 1);
  }
  while (t.next[1][SHOAL_WORK_FORWARD] < m) {
    if (t.next[0][SHOAL_WORK_FORWARD] < m) turn(&t, SHOAL_WORK_FORWARD, 0);
    turn_back(&t, 0);
    turn(&t, SHOAL_WORK_FORWARD, 1);
    turn_back(&t, 1);
  }
  for (int32_t k = 0; k < d; ++k) {  // others wait for these gradients: W can wait
    turn(&t, SHOAL_WORK_BACKWARD, 0);
    turn(&t, SHOAL_WORK_BACKWARD, 1);
  }
  for (int32_t k = d; k < p; ++k) turn_back(&t, 0);
  while (t.next[1][SHOAL_WORK_WEIGHT] < m) turn(&t, SHOAL_WORK_WEIGHT, 1);
  while (t.next[0][SHOAL_WORK_WEIGHT] < m) turn(&t, SHOAL_WORK_WEIGHT, 0);
}

// Of an interleaved pipeline: how many micro-batches the first `large` groups have; the others have
// one less.
typedef struct groups {
  int64_t size, large;
} groups_t;

static groups_t group(const shoal_pipeline_t *pipeline) {
  const int64_t p = pipeline->mesh_count, m = pipeline->micro;
  const int64_t count = m < p + 1 ? 1 : m / (p + 1);
  const int64_t large = m % count;
  return (groups_t){(m + count - 1) / count, large == 0 ? count : large};
}

// The k-th forward or backward of an interleaved mesh.
static shoal_schedule_entry_t interleaved(const writer_t *w, bool backward, int64_t k) {
  const int64_t v = w->stage_count;
  const groups_t groups = group(w->pipeline);
  int64_t base = 0, size = groups.size, at = k;
  if (at >= groups.large * size * v) {
    base = groups.large * size;
    at -= base * v;
    --size;
  }
  base += at / (size * v) * size;
  at %= size * v;
  const int64_t turn = at / size;
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
  const int64_t total = v * m;
  const int64_t ahead = 2 * (p - 1 - w->stages[0]) + (v - 1) * group(w->pipeline).size + 1;
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
  bool one_stage;       // a mesh; else as many as there are
  bool round_robin;     // stage s is on mesh s % p, equally many on each
  bool there_and_back;  // stages 0 to p - 1 on a mesh each, then back again, from the last mesh or
                        // the one before it
  bool split;
} generator_t;

static const generator_t GENERATORS[] = {
    {"gpipe", write_gpipe, .one_stage = false},
    {"1f1b", write_1f1b, .one_stage = true},
    {"1f1b+1", write_1f1b_1, .one_stage = true},
    {"interleaved", write_interleaved, .round_robin = true},
    {"zb-h1", write_zb_h1, .one_stage = true, .split = true},
    {"zb-h2", write_zb_h2, .one_stage = true, .split = true},
    {"zb-v", write_zb_v, .there_and_back = true, .split = true},
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
                         "there are gpipe, 1f1b, 1f1b+1, interleaved, zb-h1, zb-h2 and zb-v",
                         &hint),
      "there is no schedule '%s'", name);
}

// ---- the pipeline ----------------------------------------------------------------------

static int32_t mesh_of(const shoal_pipeline_t *pipeline, int32_t stage) {
  return pipeline->stage_meshes[stage];
}

// Where the caller does not say which mesh a stage is on.
static shoal_status_t deal_stages(const generator_t *generator, shoal_pipeline_t *p,
                                  shoal_arena_t *arena) {
  if (p->stage_meshes) return NULL;
  int32_t *meshes = SHOAL_NEW(arena, int32_t, p->stage_count);
  if (!meshes) return SHOAL_OOM();
  for (int32_t s = 0; s < p->stage_count; ++s)
    meshes[s] = generator->there_and_back && s >= p->mesh_count && s < 2 * p->mesh_count
                    ? p->stage_count - 1 - s
                    : s % p->mesh_count;
  p->stage_meshes = meshes;
  return NULL;
}

static shoal_status_t check_turn(const generator_t *generator, const shoal_pipeline_t *p) {
  const int32_t n = p->stage_count;
  bool fits = n == 2 * p->mesh_count || n == 2 * p->mesh_count - 1;
  for (int32_t s = 0; s < n && fits; ++s) fits = mesh_of(p, s) == mesh_of(p, n - 1 - s);
  if (fits) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "as on meshes a, b, c, c, b, a; the two on c may be one stage",
                          "schedule '%s' wants the stages on the %d meshes in order and then on "
                          "the same meshes back; there are %d stages",
                          generator->name, p->mesh_count, n);
}

static shoal_status_t check_size(const shoal_pipeline_t *p) {
  if (p->mesh_count < 1 || p->stage_count < p->mesh_count ||
      p->stage_count > SHOAL_SCHEDULE_MAX_STAGES || p->micro < 1 || p->micro > SHOAL_PLAN_MAX_MICRO)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "every mesh has a stage, and there is at least one micro-batch",
        "no schedule has %d stages on %d meshes with %d micro-batches; %d stages and %d "
        "micro-batches are the most",
        p->stage_count, p->mesh_count, p->micro, SHOAL_SCHEDULE_MAX_STAGES, SHOAL_PLAN_MAX_MICRO);
  return NULL;
}

static shoal_status_t check_pipeline(const generator_t *generator, const shoal_pipeline_t *p) {
  for (int32_t s = 0; s < p->stage_count; ++s)
    if (mesh_of(p, s) < 0 || mesh_of(p, s) >= p->mesh_count)
      return SHOAL_ERROR(INVALID_ARGUMENT, "stage %d is on mesh %d; there are %d", s, mesh_of(p, s),
                         p->mesh_count);
  if (generator->one_stage && p->stage_count != p->mesh_count)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "'interleaved' takes several stages on a mesh",
                            "schedule '%s' wants one stage on each mesh; there are %d on %d",
                            generator->name, p->stage_count, p->mesh_count);
  if (generator->there_and_back) return check_turn(generator, p);
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

shoal_status_t shoal_schedule_create(const char *name, const shoal_pipeline_t *asked,
                                     shoal_arena_t *arena, const shoal_schedule_t **out_schedule) {
  *out_schedule = NULL;
  const generator_t *generator = NULL;
  SHOAL_RETURN_IF_ERROR(find_generator(name, &generator));
  SHOAL_RETURN_IF_ERROR(check_size(asked));
  shoal_pipeline_t dealt = *asked, *pipeline = &dealt;
  SHOAL_RETURN_IF_ERROR(deal_stages(generator, pipeline, arena));
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
