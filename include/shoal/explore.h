// Shoal, explore: random models and plans, and programs broken on purpose, handed to the proof
// (prove.h); ops cut at random sizes. What `shoal check --random`, `--case`, `--mutate` and `shoal
// check ops` do.
//
// Random cases look for plans that the proof finds wrong; mutations look for wrong programs that it
// accepts. A failing case prints as one line that runs it again. All functions are *Not collective*
// (they make ranks of their own, also as processes: the caller must have no other threads) and
// block until they are through.
#ifndef SHOAL_EXPLORE_H_
#define SHOAL_EXPLORE_H_

#include "shoal/prove.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_random_options {
  shoal_allocator_t allocator;
  int64_t count;  // cases
  uint64_t seed;
  double minutes;  // stop after that time, 0: no limit
  bool processes;  // every case runs as processes too; else every eighth
  // MISMATCH if an op, its gradient or a cut of it, a reshard kind or a feature never occurred.
  bool assert_coverage;
  bool no_shrink;
  bool verbose;  // a line per case, not only per failure
  shoal_check_line_fn_t line;
  void *line_self;
} shoal_random_options_t;

typedef struct shoal_random_report {
  int64_t passed, failed, refused;
  int64_t rounding;  // of those that passed: on two other draws of the data only
} shoal_random_report_t;

// Random models over the registered ops x meshes x plans. Stops at the first failure, shrinks it
// and prints its one-line text.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_check_random(const shoal_random_options_t *options,
                                                           shoal_random_report_t *out_report);
// Runs one case from its text. The report's `refused` says whether planning refused it.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_check_case(const char *text,
                                                         const shoal_random_options_t *options,
                                                         shoal_check_report_t *out_report);

typedef struct shoal_mutate_options {
  shoal_allocator_t allocator;
  uint64_t seed;
  int64_t stride;  // every stride-th mutation; 0: all
  double minutes;  // in all, 0: no limit
  bool verbose;    // a line per mutation
  shoal_check_line_fn_t line;
  void *line_self;
} shoal_mutate_options_t;

typedef struct shoal_mutate_report {
  int64_t plans, mutations;
  int64_t by_parse, by_static_check, by_run;  // who caught it
  int64_t survivors, explained;               // explained: they provably compute the same
} shoal_mutate_report_t;

// Breaks the printed programs of a dozen plans in every way Shoal knows, and counts which check
// catches each. MISMATCH if nothing catches one and it does not provably compute the same.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_check_mutations(const shoal_mutate_options_t *options,
                                                              shoal_mutate_report_t *out_report);

typedef struct shoal_check_ops_options {
  const char *op;  // the only one; NULL: all of the registry that have example calls
  int64_t
      shapes;  // calls of each op: its examples, all of them, then others of random sizes; 0: 200
  uint64_t seed;
  shoal_check_line_fn_t line;  // a line per op, and some for each failure
  void *line_self;
} shoal_check_ops_options_t;

typedef struct shoal_check_ops_counts {
  int64_t gradients;       // inputs whose gradient was compared with finite differences
  int64_t decompositions;  // compared with the op itself
  int64_t dtypes;          // calls in narrower dtypes compared with the widest
  int64_t shapes;          // calls: examples, random sizes, and sizes of 0, 1 and a prime
  int64_t random, empty;   // of those
  int64_t refused;         // calls with a size of 0, 1 or a prime that ops do not take
  int64_t nan;             // elements made NaN, inf and -inf
  int64_t repeats;         // calls run twice over different garbage
  int64_t in_place;        // runs with outputs written over inputs
  int64_t ways;            // executed in 2, 3, 5 and 7 parts
} shoal_check_ops_counts_t;

typedef struct shoal_check_ops_report {
  int64_t ops, failed;  // ops with a check that failed
  int64_t documented;   // ops that say what becomes of NaN, so that only they know
  shoal_check_ops_counts_t counts;
} shoal_check_ops_report_t;

// Checks what the records of ops say, on their example calls and on calls like them with other
// sizes, in f64 where nothing else is said:
//   - every way to cut them, in 2, 3, 5 and 7 parts of random lengths, against the whole
//   - gradients by every float input, of each output and of all, against finite differences
//   - decompositions against the op: values and gradients
//   - every dtype that the op takes against f64 or i64
//   - sizes of 0 and 1: results, or a refusal in words
//   - NaN reaches what depends on it and nothing else; infinities reach nothing else
//   - the same bits when run again over other garbage, and when outputs are written over inputs
// MISMATCH if anything does not hold, or an op has a gradient that could not be compared.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_check_ops(shoal_registry_t *registry,
                                                        const shoal_check_ops_options_t *options,
                                                        shoal_check_ops_report_t *out_report);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_EXPLORE_H_
