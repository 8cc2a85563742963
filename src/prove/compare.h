// Compares the values that the ranks recorded with the one-device runs.
//   join.c     a value's parts: where each lies, unreduced ones joined
//   compare.c  value by value in program order
//   taken.c    values that one device cannot know
//   excuse.c   run by run: flipped decisions, and rounding where large terms cancel
#ifndef SHOAL_PROVE_COMPARE_H_
#define SHOAL_PROVE_COMPARE_H_

#include "prove/record.h"
#include "prove/reference.h"

// One element of a part: floats as f64, integers as they are.
typedef union shoal_cell {
  double f;
  int64_t i;
} shoal_cell_t;

// An element of a type that is compared exactly: an integer, or the bits of an f8.
int64_t shoal_cell_exact(shoal_dtype_t dtype, const void *data, int64_t index);

// All records of one value in one layout, in one run.
typedef struct shoal_group_parts {
  const shoal_layout_t *layout;
  shoal_type_t type;
  int64_t micro_count;           // 1 when the layout does not speak of micro
  double scale;                  // of floats: they were multiplied by it; 0: they were not
  const shoal_record_t **table;  // [micro][position]; NULL: no record
  // Of a value that log-sum-exp merges: its logarithms, one for each row. Else NULL.
  const struct shoal_group_parts *weights;
} shoal_group_parts_t;

// Does log-sum-exp merge a value in this layout? Are its weights, in another one, those of the same
// tile?
bool shoal_layout_is_merged(const shoal_layout_t *layout);
bool shoal_layout_is_weight(const shoal_layout_t *layout, const shoal_layout_t *of);
bool shoal_layout_speaks_of_micro(const shoal_layout_t *layout);
// Says which records have a complete value, of one value in a layout that does not speak of micro:
// what was accumulated is complete after the micro-batch that runs last, which a schedule decides.
SHOAL_MUST_USE shoal_status_t shoal_parts_complete(const shoal_record_t *const *records,
                                                   int64_t count, const shoal_mesh_t *mesh,
                                                   int64_t micros, shoal_arena_t *arena,
                                                   bool *out_complete);
// Says whether this is the first of the positions (and micro-batches) that are reduced into one
// part.
bool shoal_part_leads(const shoal_group_parts_t *group, int64_t position, int64_t micro);
// Boxes of a part; the same for all that are joined into it.
SHOAL_MUST_USE shoal_status_t shoal_part_boxes(const shoal_group_parts_t *group, int64_t position,
                                               int64_t micro, shoal_arena_t *arena,
                                               shoal_boxes_t *out_boxes);
// Gives the part's elements; partial ones are reduced, or merged with their weights. MISMATCH if a
// rank's part is missing or has the wrong size.
SHOAL_MUST_USE shoal_status_t shoal_part_join(const shoal_group_parts_t *group, int64_t position,
                                              int64_t micro, int64_t count, shoal_arena_t *arena,
                                              shoal_cell_t **out_cells);

typedef struct shoal_comparison shoal_comparison_t;

typedef struct shoal_rank_log {
  const char *data;
  int64_t size;
} shoal_rank_log_t;

// `program` gives the meshes and the resting layouts. Everything is allocated from `arena`.
SHOAL_MUST_USE shoal_status_t shoal_comparison_create(const shoal_model_t *model,
                                                      const shoal_program_t *program, int32_t ranks,
                                                      const shoal_rank_log_t *logs,
                                                      shoal_arena_t *arena,
                                                      shoal_comparison_t **out_comparison);
// Compares run `run`, which the references (the second may be NULL) have just made.
SHOAL_MUST_USE shoal_status_t shoal_comparison_run(shoal_comparison_t *comparison, int32_t run,
                                                   shoal_reference_t *reference,
                                                   shoal_reference_t *expanded,
                                                   shoal_check_report_t *report);

// A shoal_take_fn_t of a comparison: what the program has of a value.
bool shoal_comparison_take(void *self, int32_t run, const shoal_graph_t *graph, int32_t value,
                           int64_t count, double *elements);

// The references continue from the states the program ended the last compared run with.
SHOAL_MUST_USE shoal_status_t shoal_comparison_restart(const shoal_comparison_t *comparison);

#endif  // SHOAL_PROVE_COMPARE_H_
