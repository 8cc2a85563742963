// Shoal, schedule: in which order the stages of a pipeline run their micro-batches, as data.
//
// A *stage* is a piece of the forward pass that runs on one mesh; a mesh may have several (virtual
// stages). Its *work* on a micro-batch is F (forward), B (backward: the gradient of its input) and,
// where the table splits backward, W (the gradient of its weights); without W entries B is the
// whole backward. A schedule is a table with one row per mesh: the entries that its ranks run, in
// order. Text, one row after the other, comments from '#':
//
//   a: F0.0 F0.1 B0.0 F0.2 B0.1 B0.2
//   b: F1.0 B1.0 F1.1 B1.1 F1.2 B1.2
//
// where F1.2 is the forward work of stage 1 on micro-batch 2. The same in JSON is an object whose
// keys are meshes, {"a": "F0.0 F0.1 B0.0 ...", "b": ["F1.0", "B1.0" ...]}.
//
// A plan gets one by a decision of kind "schedule" (docs/pipelines.md). Call these functions to
// generate, draw or check a table before that; `shoal schedule` does.
//
// Everything here is *Not collective*, does not block, and takes time and memory in proportion to
// the number of entries. Schedules, times and texts lie in the arena that they were made in: there
// is nothing else to free.
#ifndef SHOAL_SCHEDULE_H_
#define SHOAL_SCHEDULE_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum shoal_work {
  SHOAL_WORK_FORWARD,   // F
  SHOAL_WORK_BACKWARD,  // B
  SHOAL_WORK_WEIGHT,    // W
  SHOAL_WORK_COUNT
} shoal_work_t;

typedef struct shoal_schedule_entry {
  shoal_work_t work;
  int32_t stage, micro;
} shoal_schedule_entry_t;

typedef struct shoal_schedule_row {
  const char *mesh;  // its name
  int64_t count;
  shoal_schedule_entry_t *entries;
} shoal_schedule_row_t;

typedef struct shoal_schedule {
  const char *name;  // of the generator; "table" where a user wrote it
  int32_t mesh_count, stage_count, micro;
  bool split;             // backward is split: it has W entries
  int32_t *stage_meshes;  // by stage: its mesh, as a row's number; -1: no entry names the stage
  shoal_schedule_row_t *rows;
} shoal_schedule_t;

// What a generator is asked for.
typedef struct shoal_pipeline {
  int32_t mesh_count, stage_count, micro;
  const char *const *meshes;    // names; NULL: "a", "b" ...
  const int32_t *stage_meshes;  // by stage, a number of a mesh; NULL: stage s is on mesh
                                // s % mesh_count; of "zb-v": there and back
} shoal_pipeline_t;

// Generators: "gpipe" (all forwards, then all backwards), "1f1b", "1f1b+1" (one more micro-batch in
// flight on each stage, so that transfers hide behind it), "interleaved" (several stages a mesh),
// "zb-h1" (backward split, weight gradients fill the bubble at the end of a step), "zb-h2" (also
// that at its beginning, for nearly twice the memory) and "zb-v" (two stages a mesh, there and
// back, in the memory of "zb-h1"). Their names by number, from 0; static; NULL after the last.
SHOAL_API const char *shoal_schedule_name(int64_t index);
// Makes the table of a generator. NOT_FOUND, with a suggestion, if there is none of that name;
// INVALID_ARGUMENT if it does not fit the pipeline: "interleaved" wants stage s on mesh s % meshes
// and equally many on each, "zb-v" stages on the meshes in order and then back, as on a, b, c, c,
// b, a (where the two on c may be one), "gpipe" takes any, and the others want one stage a mesh.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_schedule_create(const char *name, const shoal_pipeline_t *pipeline, shoal_arena_t *arena,
                      const shoal_schedule_t **out_schedule);

// The table as text and back; JSON is read as well. `name` stands for the text in messages. Parsing
// refuses what is not well formed (INVALID_ARGUMENT); whether the table can run is
// shoal_schedule_check's question.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_schedule_print(const shoal_schedule_t *schedule,
                                                             shoal_arena_t *arena,
                                                             const char **out_text);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_schedule_parse(const char *name, const char *text,
                                                             shoal_arena_t *arena,
                                                             const shoal_schedule_t **out_schedule);

// Proves that the table is complete (each work of each stage and micro-batch stands in it exactly
// once, all of a stage on one mesh) and free of deadlock when every mesh runs its row in order and
// F waits for F of the stage before, B for F and for B of the stage after, W for B. Else
// INVALID_ARGUMENT with mesh and entry.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_schedule_check(const shoal_schedule_t *schedule);
// OK if it is a table for this pipeline: these meshes, these stages on them, this many
// micro-batches. Else INVALID_ARGUMENT that says what differs. Rows of meshes may stand in any
// order.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_schedule_fits(const shoal_schedule_t *schedule,
                                                            const shoal_pipeline_t *pipeline);
// The most micro-batches of a stage that are between two kinds of work at one time, `from` begun
// and `to` not yet done: how often values that live from one to the other are needed. Without W
// entries W stands for B. The table must have passed the check.
SHOAL_API int32_t shoal_schedule_in_flight(const shoal_schedule_t *schedule, int32_t stage,
                                           shoal_work_t from, shoal_work_t to);

// How long things take on every stage, in any unit. Without W entries a B takes as long as B and W.
typedef struct shoal_durations {
  double works[SHOAL_WORK_COUNT];  // F, B, W
  double comm;  // moving what a stage gives to the next one, or its gradient back, between two
                // meshes, beside their work
} shoal_durations_t;

// The table in time. It must have passed the check. A step that must wait for all meshes to end
// the one before it, as with one norm of all gradients, takes `makespan`. Otherwise each mesh
// begins its next step when it is done with its own part, and steps follow each other by `period`,
// which is shorter where meshes end, as they begin, one after the other.
typedef struct shoal_schedule_times {
  double makespan;       // when the last entry is done
  double bubble;         // share of the meshes' time, from 0 to makespan, in which they are idle
  double period;         // the longest that a mesh takes from its first entry to its last
  double period_bubble;  // share of idle time in a period
  double **starts;       // by row and entry
} shoal_schedule_times_t;
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_schedule_time(const shoal_schedule_t *schedule,
                                                            const shoal_durations_t *durations,
                                                            shoal_arena_t *arena,
                                                            shoal_schedule_times_t *out_times);
// A picture of it in characters, one line a mesh, at most `width` columns; as text in `arena`.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_schedule_draw(const shoal_schedule_t *schedule,
                                                            const shoal_durations_t *durations,
                                                            int64_t width, shoal_arena_t *arena,
                                                            const char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_SCHEDULE_H_
