// Shoal, program: what ranks execute, as data.
//
// A program has meshes, a state table, and *classes* of ranks: the ranks of a class run the same
// text. A class has *queues*, buffers, *segments* (straight-line lists of instructions) and, for
// each graph, an *order* (a schedule) of segment calls, each with a micro-batch index. A *step* is
// one run of a graph: its order, once. Only the order grows with micro-batches, and nothing grows
// with ranks: what differs between ranks or micro-batches (part sizes, places, peers, transfers)
// follows from the buffers' layouts and is worked out when a rank loads the program.
//
// Instructions lie on queues: in order within a queue, call after call and step after step; across
// queues only *waits* order them. An instruction waits for earlier ones of its segment; a call adds
// waits for instructions of earlier calls, also of those in the steps before it (*call waits*).
// Calls are not joined: while one is at its end on one queue, the next may run on another. Nor are
// steps of the same graph; another graph joins all queues first.
//
// A buffer that is written in one call and read in another has several *slots*, as many as values
// are in flight. Buffers that are born and die in the same calls share a *slot group*, and a call
// names the slot it means of each group it touches.
//
// A class has an arena of memory for each kind: the device's own, the host's, and a file. Only
// copies reach the last two, on queues of kind copy: everything else works on the device's.
//
// Programs print, parse back, and are checked before they run: shoal_program_check proves that
// every read sees a written value, that conflicting accesses to memory are ordered, also between
// calls and steps, and that all classes' communication matches in order, kind, size, dtype and
// group, whatever queues it lies on. It is exact for every number of ranks, and costs classes,
// calls and instructions, not ranks.
#ifndef SHOAL_PROGRAM_H_
#define SHOAL_PROGRAM_H_

#include "shoal/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum shoal_opcode {
#define SHOAL_OPCODE(id, name, doc) SHOAL_OPCODE_##id,
#include "shoal/opcodes.inc"
#undef SHOAL_OPCODE
  SHOAL_OPCODE_COUNT
} shoal_opcode_t;

typedef enum shoal_queue_kind {
  SHOAL_QUEUE_COMPUTE,
  SHOAL_QUEUE_COMM,
  SHOAL_QUEUE_COPY,
  SHOAL_QUEUE_KIND_COUNT
} shoal_queue_kind_t;

#define SHOAL_MAX_QUEUES 8  // of a class

// A queue of a class.
typedef struct shoal_program_queue {
  const char *name;  // "compute", "comm", "gradients"
  shoal_queue_kind_t kind;
} shoal_program_queue_t;

// Buffers with several slots. In the n-th step since the queues were last joined, from 0, a call
// that names slot s means slot (s + n) mod slots of a group `by_step`, else slot s: so an input can
// be fed for the next step while this one still reads its own.
typedef struct shoal_slot_group {
  int32_t slots;
  bool by_step;
} shoal_slot_group_t;

typedef enum shoal_buffer_kind {
  SHOAL_BUFFER_TEMP,
  SHOAL_BUFFER_STATE,
  SHOAL_BUFFER_INPUT,
  SHOAL_BUFFER_OUTPUT,
  SHOAL_BUFFER_NEXT,  // the value that a state takes: it lies where the state's old value lies, and
                      // once it is written there the old one is gone
  SHOAL_BUFFER_KIND_COUNT
} shoal_buffer_kind_t;

// A value as one class stores it: each rank has the part its layout gives, packed dense, in each
// slot of its group (the last slot lies first).
typedef struct shoal_buffer {
  const char *name;  // of the value; taps and errors use it
  shoal_buffer_kind_t kind;
  int32_t state;                 // STATE, NEXT: index into the program's states; else -1
  shoal_type_t type;             // of the whole value
  const shoal_layout_t *layout;  // kept once in the program's arena, as all layouts here
  int32_t group;                 // of slots; -1: there is one
  shoal_memory_kind_t memory;    // which of the class's arenas it lies in
  int64_t bytes;   // of one slot, at the largest over the class's ranks and micro-batches, aligned
  int64_t offset;  // in that arena
  // What several ranks have of the value, one behind the other along dim 0 of the type, which the
  // value lacks. Taps do not show it.
  bool parts;
  // Buffer of a scalar that says, at run time, how many rows of the whole's dim 0 are valid:
  // compute instructions see only these. -1: all are.
  int32_t count;
} shoal_buffer_t;

typedef struct shoal_instruction {
  shoal_opcode_t opcode;
  int32_t queue;                    // of the class's
  const char *name;                 // node or value it comes from
  const shoal_op_t *op;             // COMPUTE
  const shoal_attr_value_t *attrs;  // COMPUTE: of the whole, in schema order; bound by role at load
  int32_t input_count, output_count;
  // Buffers of the class. RESHARD: -1 where this class only sends or only receives.
  const int32_t *inputs, *outputs;
  // Indices into the program's channels; NULL but for RESHARD and EXCHANGE.
  //
  // RESHARD: inputs[i] becomes outputs[i] by channels[i]. Several values travel at once, as one
  // collective or one message to each peer; the list is the same in every class that takes part.
  //
  // EXCHANGE: inputs[0] becomes outputs[0] by channels[0], but only rows that are used are sent;
  // the others are zero in the output, whatever they were. A value [g.., C, ..] has room for C rows
  // in each of its groups, and counts [g..], integers, say how many of them are used. inputs[1]
  // holds the counts of the groups that this rank has in the channel's source layout, inputs[2]
  // those of the groups that it has in the destination layout.
  const int32_t *channels;
  shoal_reduce_t reduce;  // ACCUMULATE
  double value;           // FILL
  int32_t predicate;  // buffer of a bool scalar; -1 always. COMPUTE, COPY, ACCUMULATE, FILL only
  int64_t workspace, workspace_offset;  // bytes of scratch in the arena
  int32_t wait_count;
  const int32_t *waits;  // indices of earlier instructions of this segment, on other queues;
                         // for those of earlier calls see shoal_call_wait_t
} shoal_instruction_t;

typedef struct shoal_segment {
  const char *name;  // "train.loop.1"
  int64_t instruction_count;
  shoal_instruction_t *instructions;
} shoal_segment_t;

// `instruction` of the call waits for `other` of the call that is `back` calls earlier, at least 1;
// before the order's first call come those of the step before, if the same graph ran then. (Where
// another one did, and before the first step, the queues are joined, and the wait is over.)
typedef struct shoal_call_wait {
  int32_t instruction, back, other;
} shoal_call_wait_t;

typedef struct shoal_segment_call {
  int32_t segment;
  int32_t micro;         // -1 outside the micro-batch loop
  const int32_t *slots;  // one for each of the class's groups, -1: the call does not touch it; NULL
                         // where the class has none
  int32_t wait_count;
  const shoal_call_wait_t *waits;
} shoal_segment_call_t;

typedef struct shoal_order {
  const char *graph;  // "init", "train" ...
  int64_t call_count;
  shoal_segment_call_t *calls;
} shoal_order_t;

// A reshard as both sides know it: layouts and type live here once, because a class that only
// receives has no buffer for the source.
typedef struct shoal_channel {
  shoal_type_t type;
  const shoal_layout_t *src, *dst;
  bool micro;  // inside the loop: once per micro-batch
  // Messages and collectives of different lanes never hold each other up. In a class, all reshards
  // of a lane that send lie on one queue, and all that receive do.
  int32_t lane;
} shoal_channel_t;

#define SHOAL_MAX_LANES 8

typedef struct shoal_class {
  int64_t rank_count;
  const int32_t *ranks;  // ascending
  int32_t queue_count;
  const shoal_program_queue_t *queues;
  int32_t slot_group_count;
  shoal_slot_group_t *slot_groups;
  int64_t buffer_count;
  shoal_buffer_t *buffers;
  int64_t segment_count;
  shoal_segment_t *segments;
  int64_t order_count;
  shoal_order_t *orders;
  int64_t arena_bytes[SHOAL_MEMORY_COUNT];  // the memory plan, by kind
} shoal_class_t;

typedef struct shoal_program_state {
  const char *name;
  shoal_type_t type;
  const shoal_layout_t *layout;  // resting
  bool saved;
} shoal_program_state_t;

// An input or output of a graph. An output is brought to all ranks in every run and fetched there,
// or it is gathered *on request*: then each run keeps it, as it lies on the ranks, in a state of
// the program that is not one of the model, and that nobody else touches.
typedef struct shoal_program_port {
  const char *graph, *name;
  shoal_type_t type;
  bool on_request;
  int32_t state;  // on request: where it is kept
} shoal_program_port_t;

typedef struct shoal_program {
  shoal_arena_t *arena;  // owns everything below
  int32_t world;         // ranks
  int64_t micro;         // 1 when there are no micro-batches
  int64_t mesh_count;
  shoal_mesh_t *meshes;  // layouts point in here
  int64_t state_count;
  shoal_program_state_t *states;
  int64_t input_count, output_count;
  shoal_program_port_t *inputs, *outputs;
  int64_t channel_count;
  shoal_channel_t *channels;
  int64_t class_count;
  shoal_class_t *classes;
} shoal_program_t;

// shoal_lower (lower.h) makes programs, shoal_session_create (session.h) runs them, shoal_simulate
// (simulate.h) says what they would take. The functions below are for whoever keeps, looks at or
// edits one. They are *Not collective* and do not block.

// Frees a program and all it points to; NULL is allowed.
SHOAL_API void shoal_program_free(shoal_program_t *program);
// Readable text, one instruction a line; it parses back to a program that prints the same. Lies in
// `arena`.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_program_print(const shoal_program_t *program,
                                                            shoal_arena_t *arena,
                                                            const char **out_text);
// `name` stands for the text in messages ("name:12:7: ..."). Indices, shapes, layouts, ops and
// attributes are checked (INVALID_ARGUMENT); whether the program makes sense is
// shoal_program_check's question. The caller owns the program and frees it with shoal_program_free.
// It borrows op records from `registry`, which must outlive it.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_program_parse(const char *name, const char *text,
                                                            const shoal_registry_t *registry,
                                                            shoal_allocator_t allocator,
                                                            shoal_program_t **out_program);
// Proves what the head of this file says, for all ranks and all graphs, or names class, segment and
// instruction (MISMATCH) and what to do. `allocator` is for scratch.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_program_check(const shoal_program_t *program,
                                                            shoal_allocator_t allocator);

// What the device's arena of a class holds, in the graph that needs most of it, in bytes; and what
// lies in other memory instead.
typedef struct shoal_memory_use {
  const char *graph;    // which; borrowed from the program. NULL: the class has none
  int64_t states;       // of all graphs; updated in place where that is right. With outputs that
                        // are kept to be fetched on request
  int64_t inputs;       // what the graph is fed: it stays through the step
  int64_t temporaries;  // the rest, as planned
  int64_t bound;        // what temporaries take when most of them are alive: no plan needs less
  int64_t arenas[SHOAL_MEMORY_COUNT];  // what the class plans of each kind of memory
} shoal_memory_use_t;
// Says what the class of that number plans, from 0; INVALID_ARGUMENT if there is none. `allocator`
// is for scratch.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_program_memory(const shoal_program_t *program,
                                                             int64_t index,
                                                             shoal_allocator_t allocator,
                                                             shoal_memory_use_t *out_use);
SHOAL_API const char *shoal_opcode_name(shoal_opcode_t opcode);         // "compute"
SHOAL_API const char *shoal_queue_kind_name(shoal_queue_kind_t queue);  // "comm"
// The class that a rank belongs to, borrowed; NULL: no such rank.
SHOAL_API const shoal_class_t *shoal_program_class_of(const shoal_program_t *program, int32_t rank);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_PROGRAM_H_
