// The program under construction. Lowering first writes one list of instructions over *global*
// buffers (one per value and layout), each with a phase and a depth; emit.c then deals them out to
// classes.
//
// phase  before the micro-batch loop, in it, after it, and at the very end (states are assigned).
// depth  within a phase: how many times a value has crossed from one mesh to another to get here. A
//        class runs a phase's segments by ascending depth, so that a plan with two stages becomes
//        forward of the first, the second stage, backward of the first.
#ifndef SHOAL_LOWER_BUILD_H_
#define SHOAL_LOWER_BUILD_H_

#include "base/memo.h"
#include "plan/plan.h"
#include "shoal/lower.h"
#include "target/target.h"

typedef enum phase { PHASE_BEFORE, PHASE_LOOP, PHASE_AFTER, PHASE_COMMIT, PHASE_COUNT } phase_t;

typedef struct global_buffer {
  const char *name;
  shoal_buffer_kind_t kind;
  int32_t state;  // STATE
  int32_t value;  // of the graph; -1 for a state's home
  shoal_type_t type;
  const shoal_layout_t *layout;  // on one of build->meshes
  int32_t next_copy;             // of the same value in another layout; -1: no more
  phase_t phase;                 // from when on it can be read
  int32_t depth;
} global_buffer_t;

typedef struct global_instruction {
  shoal_instruction_t code;  // inputs and outputs are global buffers
  phase_t phase;
  int32_t depth;                               // RESHARD: where it is received
  int32_t send_depth;                          // RESHARD: where a class that only sends does so
  int32_t one_input, one_output, one_channel;  // storage of single-operand instructions
} global_instruction_t;

typedef struct graph_build {
  const char *name;
  SHOAL_VEC(global_instruction_t *) instructions;
} graph_build_t;

// Layouts that a value passes on its way to the last of them.
typedef struct path {
  int64_t count;
  const shoal_layout_t **layouts;
} path_t;

typedef struct build {
  const shoal_plan_t *plan;
  const shoal_lower_options_t *options;
  shoal_arena_t *arena;  // the program's
  shoal_program_t *program;
  shoal_target_t target;    // the device that the program is for
  shoal_mesh_t *meshes;     // the plan's, then perhaps "world"
  shoal_layouts_t layouts;  // of the program
  shoal_key_t path_key;
  shoal_memo_t path_memo;  // numbers of `paths`
  SHOAL_VEC(path_t) paths;
  const bool *overlap;        // [mesh * mesh_count + mesh]: do they share a rank?
  const shoal_mesh_t *world;  // a mesh of all ranks in order
  SHOAL_VEC(global_buffer_t *) buffers;
  SHOAL_VEC(shoal_channel_t) channels;
  SHOAL_VEC(shoal_program_port_t) inputs, outputs;
  int32_t *state_buffers;  // home of each state
  graph_build_t *graphs;
} build_t;

// decisions.c: refuses by name what cannot be lowered yet (UNSUPPORTED).
SHOAL_MUST_USE shoal_status_t shoal_lower_check_decisions(const shoal_plan_t *plan);
// lower.c: a layout of the plan as one of the program.
SHOAL_MUST_USE shoal_status_t shoal_lower_layout(build_t *b, const shoal_layout_t *layout,
                                                 const shoal_layout_t **out_layout);
// graph.c: writes the instructions of one graph.
SHOAL_MUST_USE shoal_status_t shoal_lower_graph(build_t *b, const shoal_graph_plan_t *gp,
                                                graph_build_t *out_graph);
// order.c: the order in which the graph's nodes are lowered, as many as there are.
SHOAL_MUST_USE shoal_status_t shoal_lower_order(const build_t *b, const shoal_graph_t *graph,
                                                int32_t *order);
// emit.c: classes, segments, orders.
SHOAL_MUST_USE shoal_status_t shoal_lower_emit(build_t *b);
// home.c: states of one class are updated in place, where that is right.
SHOAL_MUST_USE shoal_status_t shoal_lower_homes(build_t *b, shoal_class_t *c);

#endif  // SHOAL_LOWER_BUILD_H_
