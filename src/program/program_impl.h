// Internal header of program/: what its files share. Nothing here is public.
//
//   program.c       names and small questions
//   bind.c          a rank's parts, addresses, local calls
//   bind_copy.c     copies in and out of micro-batches
//   bind_reshard.c  a rank's share of a reshard
//   exchange.c      what an exchange is
//   largest.c       what buffers are planned at
//   sample.c        ranks and micro-batches that stand for others
//   lives.c         when buffers are in use
//   usage.c         what an arena is used for
//   overwrite.c     outputs that lie over inputs
//   key.c           what instructions that bind alike have in common
//   print.c         text form
//   parse*.c        and back
//   check*.c        the static check (check_impl.h)
//   mutate*.c       programs broken on purpose (mutate_impl.h)
#ifndef SHOAL_PROGRAM_IMPL_H_
#define SHOAL_PROGRAM_IMPL_H_

#include "base/arena.h"
#include "base/status.h"
#include "op/type.h"
#include "program/bind.h"

#define SHOAL_PROGRAM_ALIGN 64  // of buffers, workspaces and staged messages
#define SHOAL_PROGRAM_MAX_WORLD (1 << 20)
#define SHOAL_PROGRAM_MAX_MICRO (1 << 16)
#define SHOAL_PROGRAM_MAX_GROUPS (1 << 10)  // of slots in a class: each call has a number for each
#define SHOAL_PROGRAM_MAX_PERIOD 16         // steps after which slots by step come round
#define SHOAL_PROGRAM_MAX_OPERANDS (1 << 12)  // that one reshard carries

static inline int64_t shoal_program_align(int64_t bytes) {
  return (bytes + SHOAL_PROGRAM_ALIGN - 1) & ~(int64_t)(SHOAL_PROGRAM_ALIGN - 1);
}

// Where a rank stands in the class's list; -1: it is not of the class.
int64_t shoal_class_find(const shoal_class_t *rank_class, int32_t rank);
// Says whether the layout has a cut or a partial along micro. Such a value exists once per
// micro-batch.
bool shoal_program_has_micro(const shoal_layout_t *layout);
// The layout's partial along micro, or NULL.
const shoal_cut_t *shoal_program_micro_partial(const shoal_layout_t *layout);
// The same cuts without those along micro.
shoal_layout_t shoal_program_without_micro(const shoal_layout_t *layout);
// The layout in which a rank has what it has in all micro-batches of a value, without moving
// anything: what is cut inside a micro-batch becomes a cut of each of as many equal chunks. False:
// there is no such layout (micro-batches of different sizes, partial, flat, several cuts inside).
bool shoal_program_over_micro(const shoal_layout_t *layout, const shoal_shape_t *shape,
                              shoal_layout_t *out_layout);
// Is `over` that layout? Then where a micro-batch's part lies in it follows from sizes alone.
bool shoal_program_is_over_micro(const shoal_layout_t *layout, const shoal_shape_t *shape,
                                 const shoal_layout_t *over);
// The output that is kept in this state, to be fetched on request; NULL: it is one of the model.
const shoal_program_port_t *shoal_program_kept_in(const shoal_program_t *program, int64_t state);
// The micro-batch a value of this layout is bound at, in a call with index `micro`.
static inline int64_t shoal_program_micro_of(const shoal_layout_t *layout, int64_t micro) {
  return shoal_program_has_micro(layout) ? micro : -1;
}
const char *shoal_buffer_kind_name(shoal_buffer_kind_t kind);  // "temp"
bool shoal_class_has_default_queues(const shoal_class_t *rank_class);

// ---- one rank's share of a reshard --------------------------------------------------

// What a channel amounts to in one call; the same on all ranks.
SHOAL_MUST_USE shoal_status_t shoal_channel_describe(const shoal_channel_t *channel, int64_t micro,
                                                     shoal_allocator_t allocator,
                                                     shoal_reshard_facts_t *out_facts);
// What the rank does in it; `input` and `output` are its parts, or NULL.
SHOAL_MUST_USE shoal_status_t shoal_bind_reshard(const shoal_channel_t *channel, int64_t micro,
                                                 int32_t rank, const shoal_bound_buffer_t *input,
                                                 const shoal_bound_buffer_t *output,
                                                 const shoal_reshard_facts_t *facts,
                                                 shoal_arena_t *arena, shoal_motion_t *out_motion);
// The same outside the loop, by messages even where a collective would do, which needs a group.
SHOAL_MUST_USE shoal_status_t shoal_bind_messages(const shoal_channel_t *channel, int32_t rank,
                                                  const shoal_bound_buffer_t *input,
                                                  const shoal_bound_buffer_t *output,
                                                  shoal_arena_t *arena, shoal_motion_t *out_motion);

// COPY and ACCUMULATE: the pieces of `bound`, whose operands are bound already.
SHOAL_MUST_USE shoal_status_t shoal_bind_copy(const shoal_class_t *class, int64_t micro,
                                              shoal_arena_t *arena, shoal_arena_t *scratch,
                                              shoal_bound_instruction_t *bound);
SHOAL_MUST_USE shoal_status_t shoal_bind_accumulate(const shoal_class_t *class,
                                                    shoal_arena_t *arena,
                                                    shoal_bound_instruction_t *bound);
// ASSEMBLE: the same. Sources of pieces count from the first input; the others lie in its arena.
SHOAL_MUST_USE shoal_status_t shoal_bind_assemble(const shoal_class_t *class, shoal_arena_t *arena,
                                                  shoal_arena_t *scratch,
                                                  shoal_bound_instruction_t *bound);
// Binds one instruction of a class for one of its ranks in one micro-batch (-1: outside the loop),
// only to see whether it can be.
SHOAL_MUST_USE shoal_status_t shoal_bind_one(const shoal_program_t *program,
                                             const shoal_class_t *class, int32_t rank,
                                             int64_t micro, const shoal_instruction_t *in,
                                             shoal_arena_t *arena);

// Says whether the channel never moves anything between ranks, in any micro-batch.
SHOAL_MUST_USE shoal_status_t shoal_channel_is_silent(const shoal_channel_t *channel,
                                                      int64_t micro_count, shoal_arena_t *scratch,
                                                      bool *out_silent);

// ---- one instruction ----------------------------------------------------------------

// How many buffers an opcode takes and gives; COMPUTE asks its op, RESHARD its channels (-1 here).
// ASSEMBLE takes as many as there are pieces, at least one (-1).
void shoal_opcode_arity(shoal_opcode_t opcode, int32_t *out_inputs, int32_t *out_outputs);

#endif  // SHOAL_PROGRAM_IMPL_H_
