// Mutations: programs broken on purpose, one small change each. explore/ runs each of them: the
// static check or a wrong result must reveal it, or it must be clear why the change computes the
// same.
#ifndef SHOAL_PROGRAM_MUTATE_H_
#define SHOAL_PROGRAM_MUTATE_H_

#include "base/arena.h"
#include "shoal/program.h"

typedef enum shoal_mutation_kind {
  SHOAL_MUTATION_CHANNEL_CUT,      // a channel's source or destination loses its last cut
  SHOAL_MUTATION_CHANNEL_LANE,     // a channel takes the next lane
  SHOAL_MUTATION_GROUP_SLOT,       // a slot group has one slot less
  SHOAL_MUTATION_GROUP_STEP,       // its slots do not go by step any more
  SHOAL_MUTATION_BUFFER_MOVE,      // 64 bytes
  SHOAL_MUTATION_BUFFER_LESS,      // 64 bytes less
  SHOAL_MUTATION_BUFFER_MORE,      // 64 bytes more
  SHOAL_MUTATION_BUFFER_SLOT,      // it has one slot, of no group
  SHOAL_MUTATION_BUFFER_CUT,       // its layout loses its last cut
  SHOAL_MUTATION_OFFLOAD,          // in host or file memory: it lies over another one
  SHOAL_MUTATION_CALL_DROP,        // of an order
  SHOAL_MUTATION_CALL_SWAP,        // with the next; `first` is the order, `second` the call
  SHOAL_MUTATION_CALL_SLOT,        // names the slot beside
  SHOAL_MUTATION_CALL_WAIT,        // does not wait for an earlier call ...
  SHOAL_MUTATION_CALL_WAIT_BACK,   // ... or for the one before or after that ...
  SHOAL_MUTATION_CALL_WAIT_OTHER,  // ... or for the instruction beside
  SHOAL_MUTATION_DROP,             // an instruction is left out ...
  SHOAL_MUTATION_REPEAT,           // ... done twice ...
  SHOAL_MUTATION_SWAP,             // ... or changes places with the next
  SHOAL_MUTATION_WAIT,             // a wait is left out
  SHOAL_MUTATION_QUEUE,            // on another queue of the same kind
  SHOAL_MUTATION_CHANNEL,          // uses channel `first` instead of `second`
  SHOAL_MUTATION_REDUCTION,        // of an accumulation
  SHOAL_MUTATION_FILL,             // another value
  SHOAL_MUTATION_INPUTS,           // the first two inputs change places
  SHOAL_MUTATION_MEMBER,           // a reshard of several values loses one
  SHOAL_MUTATION_COUNTS,           // an exchange takes its counts from another part
  SHOAL_MUTATION_PAIR,             // a merge takes another part of one of its pair
  SHOAL_MUTATION_ALIAS,            // its output lies over an input that is read later
  SHOAL_MUTATION_AGAIN,            // what is made a second time is not ready, or dead already
  SHOAL_MUTATION_ATTRIBUTE,        // an eighth is added to a real one; a count changes
  SHOAL_MUTATION_PREDICATE,        // it is not skipped any more
  SHOAL_MUTATION_WORKSPACE_MOVE,   // 64 bytes
  SHOAL_MUTATION_WORKSPACE_HALVE
} shoal_mutation_kind_t;

typedef struct shoal_mutation {
  shoal_mutation_kind_t kind;
  int64_t class, segment, instruction;  // where; -1: it is no part of one
  int64_t first, second;                // see the kinds; else 0
  // For people: "class 0, segment 1 'train.loop.0', instruction 3 compute 'fc1': drop it".
  const char *description;
  const char *text;  // of the mutated program; it parses
} shoal_mutation_t;

// Mutation `index` (from 0) of the program, whose texts lie in the arena. NOT_FOUND when there are
// no more. `program` is not changed.
SHOAL_MUST_USE shoal_status_t shoal_program_mutate(const shoal_program_t *program, int64_t index,
                                                   shoal_arena_t *arena,
                                                   shoal_mutation_t *out_mutation);
// How many there are.
int64_t shoal_program_mutations(const shoal_program_t *program);

#endif  // SHOAL_PROGRAM_MUTATE_H_
