// Shoal, lower: from a plan to the program that its ranks execute.
//
// Lowering puts a reshard wherever the layout in which a value is produced differs from the one in
// which it is needed, splits a step into segments, plans slots and memory of every class of ranks,
// and adds the waits that order the queues, also across calls and steps. shoal_parallelize
// (session.h) does all of this; call it yourself to look at a program, to simulate it or to keep
// it, without running it:
//
//   status = shoal_lower(plan, NULL, &program);
//   if (!status) status = shoal_program_check(program, shoal_allocator_system());
#ifndef SHOAL_LOWER_H_
#define SHOAL_LOWER_H_

#include "shoal/plan.h"
#include "shoal/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_lower_options {
  shoal_allocator_t allocator;  // zero: the system's
  // Names of values to fetch besides outputs; NULL-terminated, may be NULL.
  const char *const *fetches;
  // Bytes of device memory that a rank may use; 0: any number. A program whose arena is larger is
  // refused (UNSUPPORTED), with how many are missing.
  int64_t memory;
} shoal_lower_options_t;

// Makes the program of a plan. NULL options are all defaults. The caller owns the program and frees
// it with shoal_program_free. It borrows op records from the registry of the plan's model, and
// nothing else: the plan may be freed before it. Errors name the node, value or decision
// (UNSUPPORTED; NOT_FOUND for a fetch). *Not collective*, does not block.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lower(const shoal_plan_t *plan,
                                                    const shoal_lower_options_t *options,
                                                    shoal_program_t **out_program);

// Lowering goes through *passes*, as a compiler does. Each takes a list of items (instructions that
// are the same for all ranks) nearer to a program. They are numbered from 0 in the order in which
// they run. Names and docs are static, NULL where there is no such pass.
SHOAL_API int64_t shoal_lower_pass_count(void);
SHOAL_API const char *shoal_lower_pass_name(int64_t index);  // "paths"
SHOAL_API const char *shoal_lower_pass_doc(int64_t index);   // what it does, in a line
// Describes for people what is there after the pass of that name, as text in `arena`: the items of
// each graph, one a line, and from pass "classes" on the program so far. For whoever wants to know
// where an instruction comes from, or writes a pass; `shoal explain --pass` prints it. NOT_FOUND,
// with a suggestion, if there is no such pass; else errors as of shoal_lower. *Not collective*,
// does not block.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lower_explain(const shoal_plan_t *plan,
                                                            const shoal_lower_options_t *options,
                                                            const char *pass, shoal_arena_t *arena,
                                                            const char **out_text);

// What a layer takes of a rank's memory, in bytes. The nodes and states of a layer have the same
// scopes in their names, up to one that ends in a digit: "block0", "decoder/block1"; where none
// does, the first alone: "wte".
typedef struct shoal_layer_memory {
  const char *layer;
  int64_t parameters;  // states that are trained, wherever they lie
  int64_t others;      // other states: moments, averages
  // What its forward pass leaves for the backward pass, by kind of memory, for all micro-batches
  // that are in flight.
  int64_t kept[SHOAL_MEMORY_COUNT];
} shoal_layer_memory_t;
// Lists the layers of a graph (NULL: "train") for the ranks of class `index` of the plan's program;
// list and names lie in the arena. INVALID_ARGUMENT: there is no such class; NOT_FOUND: there is no
// such graph. docs/memory.md derives what a transformer's layer keeps. *Not collective*, does not
// block.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lower_layers(const shoal_plan_t *plan,
                                                           const shoal_program_t *program,
                                                           int64_t index, const char *graph,
                                                           shoal_arena_t *arena, int64_t *out_count,
                                                           const shoal_layer_memory_t **out_layers);

// ---- accounts -------------------------------------------------------------------------
//
// What a rank keeps and sends, read off the plan's program; `shoal explain` prints it. All are *Not
// collective* and do not block; what they give lies in `arena`. NOT_FOUND: the plan has no such
// graph (NULL: "train"); INVALID_ARGUMENT: there is no such rank.

typedef enum shoal_ledger_kind {
  SHOAL_LEDGER_PARAMETERS,     // states that are trained
  SHOAL_LEDGER_STATES,         // other states: moments, averages; outputs kept to be fetched
  SHOAL_LEDGER_INPUTS,         // what is fed
  SHOAL_LEDGER_ACTIVATIONS,    // what the forward pass makes
  SHOAL_LEDGER_GRADIENTS,      // what the backward pass makes
  SHOAL_LEDGER_COMMUNICATION,  // copies of states in other layouts, as ZeRO-3 gathers them
  SHOAL_LEDGER_OTHER,          // what updates make, and workspaces
  SHOAL_LEDGER_KIND_COUNT
} shoal_ledger_kind_t;
SHOAL_API const char *shoal_ledger_kind_name(shoal_ledger_kind_t kind);  // "parameters"

// Layers are those of shoal_layer_memory_t.
typedef struct shoal_ledger_row {
  const char *layer;
  int64_t bytes[SHOAL_LEDGER_KIND_COUNT];
} shoal_ledger_row_t;

typedef struct shoal_ledger {
  const char *at;  // the instruction at which most is alive; borrowed from the program
  int64_t count;
  const shoal_ledger_row_t *rows;
  int64_t unused;  // between buffers, or for other graphs; rows and this add up to
  int64_t total;   // the planned arena
} shoal_ledger_t;

// Says what a rank's arena of one kind of memory holds, by layer, at the moment when a step of the
// graph needs most of it. Bytes are as planned: buffers begin at multiples of 64 (of 4096 where
// direct I/O moves them), and have the size of the largest part in the rank's class.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lower_ledger(
    const shoal_plan_t *plan, const shoal_program_t *program, const char *graph, int32_t rank,
    shoal_memory_kind_t memory, shoal_arena_t *arena, shoal_ledger_t *out_ledger);

typedef enum shoal_traffic_pass {
  SHOAL_TRAFFIC_FORWARD,
  SHOAL_TRAFFIC_BACKWARD,  // gradients with their reduction, and what is brought for their sake
  SHOAL_TRAFFIC_UPDATE,
  SHOAL_TRAFFIC_PASS_COUNT
} shoal_traffic_pass_t;
SHOAL_API const char *shoal_traffic_pass_name(shoal_traffic_pass_t pass);  // "forward"

typedef struct shoal_traffic_row {
  shoal_traffic_pass_t pass;
  shoal_reshard_kind_t kind;  // all_reduce ...
  const char *axes;           // of the mesh, "data,tensor"; between meshes, their names: "a>b"
  const char *name;           // of the value
  bool bounded;               // only rows that are used are sent: `bytes` is the most it can be
  int64_t count;              // how often the value is moved in a step
  int64_t calls;              // collectives, or rounds of messages, that it is the first value of:
                              // those of a bucket travel together
  int64_t bytes;              // that this rank sends, in a step
} shoal_traffic_row_t;

// Lists what a rank sends to others in a step of the graph, in the order of the program. Bytes are
// those that must leave the rank: of an all-reduce over n ranks 2 (n-1)/n of the value.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lower_traffic(
    const shoal_plan_t *plan, const shoal_program_t *program, const char *graph, int32_t rank,
    shoal_arena_t *arena, int64_t *out_count, const shoal_traffic_row_t **out_rows);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_LOWER_H_
