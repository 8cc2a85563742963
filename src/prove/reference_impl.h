// What reference.c and shake.c share.
#ifndef SHOAL_PROVE_REFERENCE_IMPL_H_
#define SHOAL_PROVE_REFERENCE_IMPL_H_

#include "prove/reference.h"

enum { OWN, WIDE, SHAKEN, SIDES };

typedef struct named_value {
  const char *name;
  int32_t value;
} named_value_t;

struct shoal_reference {
  const shoal_model_t *model;
  const shoal_model_t *fed;  // whose inputs say what is fed: `model`, or what it was made of
  const shoal_check_options_t *options;
  const shoal_plan_t *plan;  // or NULL
  const shoal_program_t *program;
  shoal_allocator_t allocator;
  // WIDE may be NULL: everything is f64. SHAKEN is made when it is asked for.
  shoal_interpreter_t *interpreters[SIDES];
  double *state_epsilon, *saved_epsilon;
  void **saved[2];       // states before the last run
  shoal_arena_t states;  // what the above lie in
  // the last run
  shoal_arena_t arena;
  const shoal_graph_t *graph;
  int32_t run;
  shoal_expected_t *values, *after;  // of the graph; states after it
  shoal_dtype_t *exchanged;          // per value: the type that ranks sum it in; NULL: its own
  int32_t *scale_log2;               // per value: and its scale there
  double **plain;        // per value: own, before it was rounded to that; NULL: it wasn't
  double *allowed;       // per value, of the first try
  double **before[2];    // values as they were before decisions were imposed
  named_value_t *index;  // sorted by name
  double scale[SHOAL_KIND_COUNT];
  shoal_take_fn_t take;  // or NULL
  void *take_self;
  // imposing
  int side;
  shoal_impose_fn_t impose;
  void *impose_self;
  int64_t imposed;
  bool failed;
  int64_t sample;  // of shaken runs
};

// taken.c: has a value that is left to the program be the program's.
void shoal_reference_take_value(shoal_reference_t *reference, int32_t value, shoal_tensor_t tensor);
// Says whether some op jumps where the value changes a little: it makes integers of floats, or
// compares inside.
bool shoal_reference_decides(const shoal_graph_t *graph, int32_t value);
// Makes the interpreter of a side.
SHOAL_MUST_USE shoal_status_t shoal_reference_add_side(shoal_reference_t *reference, int side);
// Feeds the inputs of the last run.
SHOAL_MUST_USE shoal_status_t shoal_reference_feed(shoal_reference_t *reference, int side);
// shake.c: a value of a shaken run is known.
void shoal_reference_shake_value(shoal_reference_t *reference, int32_t value,
                                 shoal_tensor_t tensor);

#endif  // SHOAL_PROVE_REFERENCE_IMPL_H_
