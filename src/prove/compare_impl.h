// What compare.c and excuse.c share.
#ifndef SHOAL_PROVE_COMPARE_IMPL_H_
#define SHOAL_PROVE_COMPARE_IMPL_H_

#include "prove/compare.h"

// A tap of the run being compared.
typedef struct entry {
  const shoal_record_t *record;
  int32_t layout;  // into comparison->layouts
  int32_t state;   // >= 0: the new value of that state
  int64_t order;   // in the program: the value's number in the graph; new states come last
} entry_t;

typedef struct rank_records {
  const shoal_record_t *items;
  int64_t count;
  int32_t *layouts;  // of its LAYOUT records
} rank_records_t;

struct shoal_comparison {
  const shoal_model_t *model;
  const shoal_program_t *program;
  int32_t ranks;
  shoal_arena_t *arena;
  rank_records_t *records;
  SHOAL_VEC(const char *) texts;  // of layouts; "mesh!" is not always written
  SHOAL_VEC(shoal_layout_t *) layouts;
  int32_t *resting;  // layout of each state
  // the run being compared
  int32_t run;
  shoal_reference_t *references[2];  // the model's; the expanded model's or NULL
  entry_t *entries;
  int64_t entry_count;
};

// The run's taps in program order, into the comparison.
SHOAL_MUST_USE shoal_status_t shoal_comparison_collect(shoal_comparison_t *comparison,
                                                       shoal_arena_t *arena);
// All of them, outputs and states with the references; the first that differs is named.
SHOAL_MUST_USE shoal_status_t shoal_comparison_compare(const shoal_comparison_t *comparison,
                                                       shoal_check_report_t *report);
// Behind the last entry of the same value in the same layout and type.
int64_t shoal_comparison_group_end(const shoal_comparison_t *comparison, int64_t first);
// The records of entries [first, last), all of one value in one layout and type, as it is made for
// the `round`th time. *out_more: it is made once more.
SHOAL_MUST_USE shoal_status_t shoal_comparison_gather(
    const shoal_comparison_t *comparison, int64_t first, int64_t last, const shoal_shape_t *shape,
    int32_t round, shoal_arena_t *arena, shoal_group_parts_t *out_group, bool *out_more);
// The program's elements of the value of entries [first, last), into `whole`, and ones into `known`
// where it has any.
SHOAL_MUST_USE shoal_status_t shoal_comparison_assemble(const shoal_comparison_t *comparison,
                                                        int64_t first, int64_t last,
                                                        const shoal_shape_t *shape,
                                                        shoal_arena_t *arena, double *whole,
                                                        double *known);
// The records of a value's logarithms, which come of the same node, if log-sum-exp merges it.
SHOAL_MUST_USE shoal_status_t shoal_comparison_find_weights(const shoal_comparison_t *comparison,
                                                            int64_t first, int32_t round,
                                                            shoal_arena_t *arena,
                                                            shoal_group_parts_t *group);

#endif  // SHOAL_PROVE_COMPARE_IMPL_H_
