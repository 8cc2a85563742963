// Internal header of the static check. Its parts, in the order in which they run; each may rely on
// what the earlier ones have proven:
//   check_structure.c     tables, buffers, orders: indices, types, layouts, sizes, calls
//   check_instructions.c  every instruction by itself
//   check_operands.c      reshards of several values: they go together, in all classes alike
//   check_calls.c         queues, slots, lanes; slots and waits of every call
//   check_types.c         local types: one rank per cell is bound as it would be at load
//   check_clocks.c        vector clocks over queues, calls and steps
//   check_spans.c         spans of the arena
//   check_memory.c        per class and order: every read sees its value, conflicts are ordered
//   check_comm.c          per graph: messages and collectives match in order
//   check_walk.c          per graph: all queues of all classes walked; nobody waits for ever
#ifndef SHOAL_PROGRAM_CHECK_IMPL_H_
#define SHOAL_PROGRAM_CHECK_IMPL_H_

#include "program/key.h"
#include "program/program_impl.h"

// Where an error is. Negative numbers are left out of the message.
typedef struct place {
  const shoal_program_t *program;
  int64_t class, segment, instruction;
  const char *graph;  // NULL: in any
  int64_t micro;
} place_t;

// "graph 'train', class 0, segment 1 'train.loop.0', instruction 3 compute 'fc1', micro-batch 2"
const char *shoal_program_check_where(const place_t *place, char *buffer, size_t capacity);
// "call 3 (segment 1 'train.loop.1', micro-batch 0)"
const char *shoal_program_check_call(const shoal_class_t *rank_class, const shoal_order_t *order,
                                     int64_t call, char *buffer, size_t capacity);
// Says where, and makes a MISMATCH of whatever was found; out of memory stays what it is. Takes
// status.
SHOAL_MUST_USE shoal_status_t shoal_program_check_at(const place_t *place, shoal_status_t status);

// MISMATCH(place, hint, format, ...): an error at `place`.
#define MISMATCH(place, hint, ...) \
  shoal_program_check_at((place), SHOAL_ERROR_HINT(MISMATCH, hint, __VA_ARGS__))

static inline const shoal_class_t *place_class(const place_t *place) {
  return &place->program->classes[place->class];
}

// What all parts share. `scratch` lives as long as the check.
typedef struct check {
  const shoal_program_t *program;
  shoal_arena_t *scratch;
  const int64_t *present;  // [class * mesh_count + mesh]: how many of its ranks are on the mesh
} check_t;

// How many of the class's ranks are on the mesh, which must be one of the program's.
int64_t shoal_program_check_present(const check_t *check, int64_t class, const shoal_mesh_t *mesh);
// The port a FEED or FETCH stands for in `graph`: called as the instruction is, or as its buffer;
// or -1.
int64_t shoal_program_check_port(const shoal_program_t *program, const shoal_class_t *class,
                                 const char *graph, const shoal_instruction_t *in);

// `check->present` is not there yet.
SHOAL_MUST_USE shoal_status_t shoal_program_check_tables(const check_t *check);
SHOAL_MUST_USE shoal_status_t shoal_program_check_structure(const check_t *check);
SHOAL_MUST_USE shoal_status_t shoal_program_check_instructions(const check_t *check,
                                                               int64_t class_index);
SHOAL_MUST_USE shoal_status_t shoal_program_check_operands(const check_t *check);
// check_pairs.c: what log-sum-exp merges is read by what merges it only, and exchanged as a pair.
SHOAL_MUST_USE shoal_status_t shoal_program_check_pair(const shoal_program_t *program,
                                                       const shoal_class_t *class,
                                                       const shoal_instruction_t *in);
// exchange.c: its buffers are what its channel says.
SHOAL_MUST_USE shoal_status_t shoal_program_check_exchange(const shoal_class_t *class,
                                                           const shoal_channel_t *channel,
                                                           const shoal_instruction_t *in);
// Nothing else of the instruction lies where an output lies over an input (overwrite.c).
SHOAL_MUST_USE shoal_status_t shoal_program_check_overwrites(const shoal_class_t *class,
                                                             const shoal_instruction_t *in);
// Tables of queues and of slots, before buffers; and what calls say of them, after orders.
SHOAL_MUST_USE shoal_status_t shoal_program_check_queues(const check_t *check, int64_t class_index);
SHOAL_MUST_USE shoal_status_t shoal_program_check_calls(const check_t *check, int64_t class_index);
SHOAL_MUST_USE shoal_status_t shoal_program_check_memory(const check_t *check, int64_t class_index);
SHOAL_MUST_USE shoal_status_t shoal_program_check_types(const check_t *check, int64_t class_index);
SHOAL_MUST_USE shoal_status_t shoal_program_check_comm(const check_t *check);

#endif  // SHOAL_PROGRAM_CHECK_IMPL_H_
