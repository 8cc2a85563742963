// Discovery: what the files that search for ways share. Private to rules/.
//
//   discover.c        seeds: which operand is cut first, and what could follow it
//   settle.c          a candidate's outputs, on several deals; the ways found so far
//   spatial.c         windows that slide: halo ways
//   trial.h           executing and comparing
#ifndef SHOAL_RULES_SEARCH_H_
#define SHOAL_RULES_SEARCH_H_

#include "rules/trial.h"

#define SEARCH_MAX_FORMS 64

// How the items of a longer dim may lie in it: each as a stretch, or one after the other in every
// stretch as well, or both (the middle one of several dims that were merged).
typedef enum search_shapes { SEARCH_STRETCHES, SEARCH_TURNS, SEARCH_BOTH } search_shapes_t;

typedef struct search {
  trial_t *trial;
  shoal_arena_t *arena;  // what is found lives here
  SHOAL_VEC(shoal_way_t) ways;
  int32_t operand_count;
  bool *has_place;         // by operand: is it told where its part lies?
  bool *has_role;          // by operand: do attributes depend on how it is cut?
  bool has_sizes;          // sizes are attributes: dims may be merged and split
  search_shapes_t shapes;  // what the parts of such a dim may look like
  shoal_arena_t scratch;   // of one deal
  struct forms *forms;     // by output: what it may still turn out to be (settle.c)
} search_t;

// A candidate for a way. Outputs that are not `decided` are found by executing.
typedef struct candidate {
  shoal_way_operand_t *operands;
  bool *decided;  // by output
  int64_t items;
  bool any_order;
} candidate_t;

static inline const shoal_shape_t *search_shape(const search_t *s, int32_t operand) {
  return &s->trial->types[operand].shape;
}
static inline shoal_way_operand_t search_cut(int32_t dim, int64_t scale, int64_t repeat) {
  return (shoal_way_operand_t){
      .kind = SHOAL_OPERAND_CUT, .dim = dim, .scale = scale, .repeat = repeat};
}

// Room for the outputs' forms; false when memory is short.
bool search_init(search_t *s);
void search_deinit(search_t *s);
// A candidate with every operand whole and no output decided; false when memory is short.
bool search_candidate(search_t *s, shoal_arena_t *arena, candidate_t *out);
// Lists the ways to regard `length` as items: one element each first, then scaled, then repeated,
// then both. Returns how many were appended to forms[count...].
int32_t search_forms(int32_t dim, int64_t length, int64_t items, search_shapes_t shapes,
                     int32_t count, shoal_way_operand_t forms[SEARCH_MAX_FORMS]);

// Executes the candidate with its items distributed in several ways and determines its outputs.
// False: there is no such way.
bool search_settle(search_t *s, candidate_t *candidate);
// The same in two parts only, or with parts of single items only; the candidate has to be settled
// in full later.
bool search_settle_roughly(search_t *s, candidate_t *candidate);
bool search_settle_quickly(search_t *s, candidate_t *candidate);
// Says whether a candidate whose outputs are all given holds: in a few parts, and in as many as
// there are items, but at most `most`. Takes `any_order` back if that does not hold.
bool search_holds(search_t *s, candidate_t *candidate, int64_t most);
// The same on a second call of another size: on fewer deals, and with fewer values.
bool search_holds_again(search_t *s, candidate_t *candidate);
// The same on one deal.
bool search_holds_on(search_t *s, const candidate_t *candidate, const deal_t *deal);
// Tries every form of the outputs that attributes depend on, determines the others, and keeps the
// ways that hold.
bool search_try(search_t *s, candidate_t *candidate);
// Adds a settled candidate, unless an earlier way covers it.
void search_keep(search_t *s, candidate_t *candidate);
bool search_same_way(const shoal_way_t *a, const shoal_way_t *b);
bool search_same_operand(const shoal_way_operand_t *a, const shoal_way_operand_t *b);
// Removes the way at `index`.
void search_drop(search_t *s, int64_t index);
// Says whether a way was found that cuts this operand along this dim.
bool search_found(const search_t *s, int32_t operand, int32_t dim);

// Halo ways of input `input` along `dim`. True if one was found.
bool search_spatial(search_t *s, int32_t input, int32_t dim);
// The same for ops without places: the halo follows from the sizes.
bool search_sliding(search_t *s, int32_t input, int32_t dim);

// All ways of a call, into the arena, by executing it as it is: calls of real models are too large
// for that (resolve.c).
SHOAL_MUST_USE shoal_status_t shoal_rules_discover(const shoal_call_t *call,
                                                   shoal_executor_t executor,
                                                   shoal_allocator_t allocator,
                                                   shoal_arena_t *arena, shoal_rule_t *out_rule);

#endif  // SHOAL_RULES_SEARCH_H_
