// Internal header of mutations: what the files that make them share.
//   mutate.c               the walk; buffers, slots, channels
//   mutate_instructions.c  instructions
//   mutate_again.c         what is made a second time
//   mutate_orders.c        calls, with their slots and waits
//   mutate_waits.c         waits that follow what is moved
#ifndef SHOAL_PROGRAM_MUTATE_IMPL_H_
#define SHOAL_PROGRAM_MUTATE_IMPL_H_

#include "program/check_impl.h"
#include "program/mutate.h"

typedef struct walk {
  const shoal_program_t *from;
  int64_t index, count;  // the mutation looked for; those passed
  bool found;
  shoal_arena_t *arena;     // NULL: only count
  shoal_program_t program;  // from here: the mutated copy
  shoal_mutation_t mutation;
  place_t place;
  bool failed;
} walk_t;

// Is this the mutation that is looked for? Then it is noted.
bool shoal_mutate_due(walk_t *w, shoal_mutation_kind_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Copies of what is at w->place that may be changed; NULL and w->failed without memory.
void *shoal_mutate_own(walk_t *w, const void *data, int64_t count, size_t size);
shoal_class_t *shoal_mutate_own_class(walk_t *w);
shoal_buffer_t *shoal_mutate_own_buffer(walk_t *w, int64_t index);
shoal_segment_t *shoal_mutate_own_segment(walk_t *w);  // with room for one more instruction
shoal_instruction_t *shoal_mutate_own_instruction(walk_t *w);
shoal_order_t *shoal_mutate_own_order(walk_t *w, int64_t index);
// The instruction reads another buffer as one of its inputs.
void shoal_mutate_read(walk_t *w, int32_t input, int32_t buffer);

void shoal_mutate_instruction(walk_t *w, const shoal_segment_t *segment);
void shoal_mutate_again(walk_t *w, const shoal_segment_t *segment);
void shoal_mutate_order(walk_t *w, int64_t index);

// What became of the instructions of a segment. By their former place: who waits in their stead,
// and who is waited for in their stead; -1: nobody.
typedef struct mutate_moves {
  const shoal_segment_t *former;
  int32_t *source, *target;
} mutate_moves_t;

// Where all of them stay, to begin with; false: no memory.
bool shoal_mutate_stay(walk_t *w, const shoal_segment_t *former, mutate_moves_t *out_moves);
// Rewrites all waits of the segment at w->place, which is a copy, and of the calls from and to it.
void shoal_mutate_move_waits(walk_t *w, shoal_segment_t *segment, const mutate_moves_t *moves);
// Rewrites all waits of an order, which is a copy: call `k` of the former is now at places[k], or
// gone (-1).
void shoal_mutate_move_calls(walk_t *w, shoal_order_t *order, const shoal_order_t *former,
                             const int64_t *places);

#endif  // SHOAL_PROGRAM_MUTATE_IMPL_H_
