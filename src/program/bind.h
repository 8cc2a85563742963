// Binding specialises a program for one rank of a class: it works out sizes, places, addresses and
// transfers. It is done once at load; the executor then only walks these arrays.
#ifndef SHOAL_PROGRAM_BIND_H_
#define SHOAL_PROGRAM_BIND_H_

#include "base/arena.h"
#include "layout/bundle.h"
#include "shoal/program.h"

// One rank's part of a buffer in one micro-batch.
typedef struct shoal_bound_buffer {
  shoal_boxes_t boxes;
  shoal_type_t type;  // local
  int64_t count;      // elements
  shoal_memory_kind_t memory;
  int64_t offset;  // in the arena of that memory, slot applied
} shoal_bound_buffer_t;

typedef struct shoal_bound_instruction {
  const shoal_instruction_t *instruction;
  const shoal_bound_buffer_t **inputs, **outputs;  // NULL where this rank takes no part
  shoal_call_t call;                               // COMPUTE: local types and bound attributes
  bool idle;                                       // this rank has nothing to do here
  const shoal_bound_buffer_t *predicate;
  const shoal_bound_buffer_t **counts;  // COMPUTE: inputs', then outputs', where they are bounded;
                                        // NULL: none is
  const shoal_bundle_t *reshard;        // RESHARD
  int64_t piece_count;                  // COPY, ACCUMULATE, ASSEMBLE
  const shoal_piece_t *pieces;
} shoal_bound_instruction_t;

typedef struct shoal_bound_call {
  int32_t segment, micro;
  int64_t instruction_count;
  const shoal_bound_instruction_t *instructions;
} shoal_bound_call_t;

// Step n makes the calls calls[(n mod period) * call_count] and so on: slots by step differ.
typedef struct shoal_bound_order {
  const char *graph;
  int64_t call_count;
  const shoal_bound_call_t *calls;  // period * call_count
} shoal_bound_order_t;

typedef struct shoal_bound {
  const shoal_program_t *program;
  const shoal_class_t *rank_class;
  int32_t rank;
  int64_t period;  // of the class: steps after which slots come round
  int64_t order_count;
  const shoal_bound_order_t *orders;
} shoal_bound_t;

SHOAL_MUST_USE shoal_status_t shoal_program_bind(const shoal_program_t *program, int32_t rank,
                                                 shoal_arena_t *arena, shoal_bound_t *out_bound);
// How many slots a buffer of the class has.
static inline int32_t shoal_buffer_slots(const shoal_class_t *rank_class,
                                         const shoal_buffer_t *buffer) {
  return buffer->group < 0 ? 1 : rank_class->slot_groups[buffer->group].slots;
}
// The slot of a group (-1: the buffer has none) that a call means in step `step`; -1: it names
// none.
static inline int32_t shoal_call_slot(const shoal_class_t *rank_class,
                                      const shoal_segment_call_t *call, int32_t group,
                                      int64_t step) {
  if (group < 0) return 0;
  const int32_t named = call->slots[group];
  const shoal_slot_group_t *slots = &rank_class->slot_groups[group];
  return named < 0 || !slots->by_step ? named : (int32_t)((named + step) % slots->slots);
}
// Where a slot lies in the arena. The last slot comes first: slot 0 has micro-batch 0, which is the
// largest (the last may be empty), so what is planned for a buffer is touched to its end.
int64_t shoal_buffer_slot_offset(const shoal_class_t *rank_class, const shoal_buffer_t *buffer,
                                 int64_t slot);
// Where the arena of a kind begins if all arenas of the class lie one behind the other, the
// device's first; and a slot of a buffer in them. Who compares places need not compare kinds of
// memory.
static inline int64_t shoal_class_arena_start(const shoal_class_t *rank_class,
                                              shoal_memory_kind_t memory) {
  int64_t start = 0;
  for (int kind = 0; kind < (int)memory; ++kind) start += rank_class->arena_bytes[kind];
  return start;
}
static inline int64_t shoal_buffer_slot_place(const shoal_class_t *rank_class,
                                              const shoal_buffer_t *buffer, int64_t slot) {
  return shoal_class_arena_start(rank_class, buffer->memory) +
         shoal_buffer_slot_offset(rank_class, buffer, slot);
}
// The input of a COMPUTE that its output lies over: the same bytes in every slot. -1: it lies
// elsewhere.
int32_t shoal_program_overwritten(const shoal_class_t *rank_class,
                                  const shoal_instruction_t *instruction, int32_t output);
// The call that is `back` calls before call `index`, which may be one of an earlier step.
static inline const shoal_segment_call_t *shoal_order_back(const shoal_order_t *order,
                                                           int64_t index, int64_t back) {
  const int64_t count = order->call_count;
  return &order->calls[(index - back % count + count) % count];
}
// How many channels an instruction lists.
static inline int32_t shoal_instruction_channels(const shoal_instruction_t *instruction) {
  if (instruction->opcode == SHOAL_OPCODE_EXCHANGE) return 1;
  return instruction->opcode == SHOAL_OPCODE_RESHARD ? instruction->input_count : 0;
}

// Can an EXCHANGE take a value from one layout to the other? On one mesh, if every rank's part is
// one box on both sides: no partial sums, chunks, halos or flat ranges.
bool shoal_exchange_fits(const shoal_layout_t *src, const shoal_layout_t *dst);
// How the counts of a value in this layout are cut: as its first dims, the groups.
shoal_layout_t shoal_exchange_counts(const shoal_layout_t *layout, int32_t groups);
// The steps after which slots by step come round; SHOAL_PROGRAM_MAX_PERIOD + 1: too many.
int64_t shoal_class_period(const shoal_class_t *rank_class);
// What a class has where nothing else is said: compute, comm, copy.
extern const shoal_program_queue_t shoal_program_default_queues[SHOAL_QUEUE_KIND_COUNT];
// The rank's part of one buffer in micro-batch `micro` (-1: outside the loop), in a slot.
SHOAL_MUST_USE shoal_status_t shoal_buffer_bind(const shoal_class_t *rank_class,
                                                const shoal_buffer_t *buffer, int32_t rank,
                                                int64_t micro, int32_t slot, shoal_arena_t *arena,
                                                shoal_bound_buffer_t *out_bound);
// Bytes of the largest part of a value, over the ranks of a class (NULL: of the mesh) and
// micro-batches; not aligned.
SHOAL_MUST_USE shoal_status_t shoal_layout_largest(const shoal_layout_t *layout,
                                                   const shoal_type_t *type,
                                                   const shoal_class_t *rank_class,
                                                   shoal_allocator_t allocator, int64_t *out_bytes);
// Bytes of workspace a reshard of one value needs on its worst rank, or on the worst of a class.
// Ranks that only send need none of the arena: their messages may leave later, from memory of their
// own.
SHOAL_MUST_USE shoal_status_t shoal_channel_workspace(const shoal_channel_t *channel,
                                                      int64_t micro_count,
                                                      const shoal_class_t *rank_class,
                                                      shoal_arena_t *scratch, int64_t *out_bytes);
// The same for a reshard that carries `count` channels of a table, which go together
// (shoal_bundle_check).
SHOAL_MUST_USE shoal_status_t shoal_reshard_workspace(const shoal_channel_t *table, int32_t count,
                                                      const int32_t *channels, int64_t micro_count,
                                                      const shoal_class_t *rank_class,
                                                      shoal_arena_t *scratch, int64_t *out_bytes);

#endif  // SHOAL_PROGRAM_BIND_H_
