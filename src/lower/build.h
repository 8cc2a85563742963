// The program under construction, and the passes that construct it (passes.inc).
//
// A value exists in several *instances*: one as its node makes it, more in the layouts in which
// others want it. The instances of all ranks are one record: who holds which part is its layout's
// business. An *item* is an instruction over instances. Up to the pass `classes` a graph is one
// list of items, the same for all ranks; then ranks get their own buffers and instructions.
//
// What an item goes through:
//   instances  A node becomes an item with *needs*: values, and the layouts it wants them in. So
//              does what is fetched, and what is assigned to a state. Instances of what nodes make
//              are there, those of what they read are not.
//   paths      Each need is met by an instance: one that is there already, or one that new items in
//              front of this one make (a feed, a reshard, into or out of the loop). A node that
//              leaves a pair to be merged is followed by what merges it. Phase and depth follow.
//              From here on code.inputs are complete and needs are history.
//   halo       A node may become several items that each make a piece of its output, and one that
//              puts them together.
//   tile       So may one whose input is gathered, or whose output is reduced, and the reshard with
//              it: a tile of the value is moved while another is computed.
//   ring       Or one whose inputs are gathered: they go round, a part at a time.
//   segments   Items get the segment in which they run, and communication its lane.
//   offload    Copies to and from host memory and files are added, and what they bring is read.
//   schedule   The list may be permuted within segments, the same for all ranks.
//   buckets    Reshards may become one item.
//   classes    Every class takes the items of its meshes, segment by segment, in the list's order.
//
// phase  before the micro-batch loop, in it, after it, and at the very end (states are assigned).
// depth  within a phase: how many times a value has crossed from one mesh to another to get here. A
//        class runs a phase's segments by ascending depth, so that a plan with two stages becomes
//        forward of the first, the second stage, backward of the first.
#ifndef SHOAL_LOWER_BUILD_H_
#define SHOAL_LOWER_BUILD_H_

#include "base/memo.h"
#include "base/text.h"
#include "plan/plan.h"
#include "shoal/lower.h"
#include "target/target.h"

// Lanes: collectives; messages between meshes that share no rank; those of them that go backward,
// where they need an order of their own; others that need one. There are as many as a class has
// queues for, besides compute and copies (classes.c).
enum {
  SHOAL_LOWER_LANE_GROUPS,
  SHOAL_LOWER_LANE_MESSAGES,
  SHOAL_LOWER_LANE_BACK,
  SHOAL_LOWER_LANE_SPARE,
  SHOAL_LOWER_LANE_COUNT
};

typedef enum phase { PHASE_BEFORE, PHASE_LOOP, PHASE_AFTER, PHASE_COMMIT, PHASE_COUNT } phase_t;

// A value in a layout: what becomes a buffer in each class that is on the layout's mesh.
typedef struct instance {
  const char *name;
  shoal_buffer_kind_t kind;
  int32_t state;  // STATE
  int32_t value;  // of the graph; -1 for a state's home
  shoal_type_t type;
  const shoal_layout_t *layout;  // on one of build->meshes
  shoal_memory_kind_t memory;
  bool again;         // computed a second time, or made from what was
  bool parts;         // what several ranks have of it, one behind the other along dim 0; or what
                      // some ranks have added or merged so far
  int32_t redo;       // a copy for some only: their number; 0: for all
  int32_t next_copy;  // of the same value in another layout; -1: no more
  phase_t phase;      // from when on it can be read; PHASE_COUNT: `paths` has not met it
  int32_t depth;
} instance_t;

// What an item wants: `paths` finds or makes the instance.
typedef struct need {
  int32_t value;
  bool again;  // as computed a second time
  const shoal_layout_t *layout;
} need_t;

typedef struct item {
  shoal_instruction_t code;  // inputs and outputs are instances
  int32_t node;              // that it computes; -1: it does something else
  bool again;                // a second time
  bool leads;                // it casts a gradient to the type in which that is exchanged
  shoal_side_t side;         // of the step: forward, backward or update
  int32_t need_count;        // one for each input; 0 for items that `paths` makes
  need_t *needs;
  int32_t *inputs;  // always code.inputs, to be written
  need_t decides;   // an assignment's predicate, of which `paths` makes code.predicate; value -1
  phase_t phase;
  int32_t depth;                               // RESHARD: where it is received
  int32_t send_depth;                          // RESHARD: where a class that only sends does so
  int32_t segment, send_segment;               // of the graph's: where that is
  int32_t one_input, one_output, one_channel;  // storage of single-operand items
  int32_t exchanged[3];                        // and of an EXCHANGE's inputs
  need_t one_need;
  const char *why;            // it stands here: `schedule` has moved it; NULL: it has not
  int64_t bucket_bytes;       // of a bucket's values
  const char *bucket_closed;  // why a bucket has no more members; NULL: the item is no bucket
  const char
      *untiled_because;       // of a node: why `tile` did not do what a decision allows; else NULL
  const char *whole_because;  // of a node that has a halo: why `halo` did not split it; else NULL
} item_t;

// A straight line of items that is called as a whole: once per micro-batch if it is in the loop.
// Segments stand in the order in which a class calls them, each for all micro-batches; where the
// graph has a schedule, that orders the calls of the loop.
typedef struct item_segment {
  const char *name;
  phase_t phase;
  int32_t depth;
} item_segment_t;

// A node's turn to be computed, for the first time or again.
typedef struct turn {
  int32_t node;
  bool again;
} turn_t;

// What the second turns of a region wait for: those gradients that `node` reads and that are made
// in front of `first`, the first node of the backward side that needs the region. -1: none.
typedef struct gate {
  int32_t node, first;
} gate_t;

// An output that is fetched on request.
typedef struct kept {
  int32_t state;                 // of the program's, where it is kept; -1: it is always fetched
  const shoal_layout_t *wanted;  // from which it is copied there; with micro: in each micro-batch
} kept_t;

typedef struct graph_build {
  const shoal_graph_plan_t *gp;
  const shoal_graph_t *graph;
  const char *name;
  SHOAL_VEC(turn_t) turns;  // in the order of the graph, second ones where they are needed first
  bool *again;              // by value: the backward side computes it again; NULL: no value
  gate_t *gates;            // by region
  SHOAL_VEC(item_t *) items;
  int32_t *homes;        // by value: its instance as produced, fed or read; -1: none yet
  int32_t *again_homes;  // by value: as computed again; NULL if nothing is
  int32_t *copies;       // by value: its instances in other layouts, a list by next_copy; -1: none
  kept_t *kept;          // by output
  SHOAL_VEC(item_segment_t) segments;
  struct loop_plan *loop;  // where the schedule puts the items of the loop; NULL: there is none
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
  SHOAL_VEC(instance_t *) instances;
  SHOAL_VEC(shoal_channel_t) channels;
  SHOAL_VEC(shoal_program_port_t) inputs, outputs;
  int32_t *state_homes;  // by state, those of kept outputs last: the instance where it rests
  int64_t graph_count;
  graph_build_t *graphs;
} build_t;

// kept.c: states of the program for outputs that are fetched on request. How many they are; those
// of a graph, behind the model's; is it the item that writes one?
int64_t shoal_lower_kept_count(const build_t *b);
SHOAL_MUST_USE shoal_status_t shoal_lower_keep_outputs(build_t *b, graph_build_t *graph);
bool shoal_lower_is_kept(const build_t *b, const item_t *item);
// setup.c: meshes and states, before the first pass.
SHOAL_MUST_USE shoal_status_t shoal_lower_setup(build_t *b);
// The passes: `instances` ... `buckets` go graph by graph, the others class by class.
#define SHOAL_PASS(name, doc) SHOAL_MUST_USE shoal_status_t shoal_lower_pass_##name(build_t *b);
#include "lower/passes.inc"
#undef SHOAL_PASS
// limit.c: refuses a program whose ranks need more memory than they may use.
SHOAL_MUST_USE shoal_status_t shoal_lower_limit(const build_t *b);
// print.c: what is there behind a pass, for people.
SHOAL_MUST_USE shoal_status_t shoal_lower_print(const build_t *b, shoal_text_t *text);

// ---- for passes (items.c) ----------------------------------------------------------------

static inline instance_t *instance_at(const build_t *b, int32_t index) {
  return b->instances.items[index];
}
// A layout of the plan as one of the program.
SHOAL_MUST_USE shoal_status_t shoal_lower_layout(build_t *b, const shoal_layout_t *layout,
                                                 const shoal_layout_t **out_layout);
SHOAL_MUST_USE shoal_status_t shoal_lower_new_instance(build_t *b, instance_t proto,
                                                       int32_t *out_index);
// Adds an item with at most one input and one output (instances; -1: none) to the end of the list.
SHOAL_MUST_USE shoal_status_t shoal_lower_new_item(build_t *b, graph_build_t *graph,
                                                   shoal_opcode_t opcode, const char *name,
                                                   int32_t input, int32_t output,
                                                   item_t **out_item);
// The same, of an item that stands where another one does, on the same side of the step.
SHOAL_MUST_USE shoal_status_t shoal_lower_new_item_beside(build_t *b, graph_build_t *graph,
                                                          shoal_opcode_t opcode, const char *name,
                                                          int32_t input, int32_t output,
                                                          const item_t *like, item_t **out_item);
// The items of a graph segment by segment, in the list's order: those of segment s end at ends[s],
// where the next one's begin. places[i] is where items[i] stands in the list.
typedef struct by_segment {
  item_t **items;
  int64_t *places, *ends;
} by_segment_t;
SHOAL_MUST_USE shoal_status_t shoal_lower_by_segment(const graph_build_t *graph,
                                                     shoal_arena_t *arena,
                                                     by_segment_t *out_sorted);
// What items that a pass holds back do with instances, by instance: how many write it, and how many
// read or write it.
typedef struct held {
  int32_t *writers, *users;
} held_t;
// From now on (1) the item is held, or no longer (-1).
void shoal_lower_hold(const held_t *held, const item_t *item, int32_t more);
// Does the item need what a held one makes, or write over what one uses?
bool shoal_lower_is_held_up(const held_t *held, const item_t *item);
// Do the meshes of two layouts have a rank in common?
bool shoal_lower_share_ranks(const build_t *b, const shoal_layout_t *first,
                             const shoal_layout_t *second);
// steps.c: the layouts that an instance passes on its way to another one, on the same mesh.
SHOAL_MUST_USE shoal_status_t shoal_lower_path(build_t *b, const instance_t *source,
                                               const shoal_layout_t *need, const path_t **out_path);
// places.c: where an item goes, as far as the instances it reads have their places: a node's (once
// per micro-batch if that is its way, else as late as what it reads; place_node also says so of
// what it makes), and a fetched output's.
SHOAL_MUST_USE shoal_status_t shoal_lower_find_place(build_t *b, const graph_build_t *graph,
                                                     item_t *item);
SHOAL_MUST_USE shoal_status_t shoal_lower_place_node(build_t *b, const graph_build_t *graph,
                                                     item_t *item);
void shoal_lower_place_fetch(build_t *b, item_t *item);
// Refuses a value that a node of the loop needs, but which is known only behind it.
SHOAL_MUST_USE shoal_status_t shoal_lower_refuse_late(build_t *b, const graph_build_t *graph,
                                                      const instance_t *source);
// merge.c: does the node leave a pair in parts that log-sum-exp merges? Adds what merges it, behind
// the node; from then on the merged instances are those of the two values.
bool shoal_lower_is_pair(const build_t *b, const item_t *item);
SHOAL_MUST_USE shoal_status_t shoal_lower_merge_pair(build_t *b, graph_build_t *graph,
                                                     const item_t *maker);
// stages.c: where the schedule of a graph puts the items of its loop: each gets the place of its
// work in depth and send_depth. Else it does nothing.
SHOAL_MUST_USE shoal_status_t shoal_lower_place(build_t *b, graph_build_t *graph,
                                                shoal_arena_t *scratch);
// messages.c: gives messages other lanes where the rows of the schedule do not send and receive
// them in the same order.
SHOAL_MUST_USE shoal_status_t shoal_lower_order_messages(const build_t *b,
                                                         const graph_build_t *graph,
                                                         shoal_arena_t *scratch);
// The name of a place: "F0", "W3".
void shoal_lower_place_name(const graph_build_t *graph, int32_t place, char out[16]);
// calls.c: the calls of a class, given its number of each segment of the graph (-1: none).
SHOAL_MUST_USE shoal_status_t shoal_lower_calls(const build_t *b, const graph_build_t *graph,
                                                uint64_t mask, const int32_t *segments,
                                                shoal_order_t *out_order);
// recompute.c: the side of the step that a node is on.
shoal_side_t shoal_lower_side(const shoal_node_t *node);
// Lists the turns of a graph's nodes, and what is computed again.
SHOAL_MUST_USE shoal_status_t shoal_lower_turns(build_t *b, graph_build_t *graph);
// Does this turn read what was computed again?
bool shoal_lower_reads_again(const graph_build_t *graph, const turn_t *turn, int32_t value);
// Does a value of the forward pass wait in other memory for somebody who reads it later?
bool shoal_lower_is_put_away(const graph_build_t *graph, int32_t value);
// Is this input of the gate's node one that the region waits for?
bool shoal_lower_is_gate(const graph_build_t *graph, const gate_t *gate, int32_t input);
// order.c: the order in which turns are lowered, as numbers into graph->turns.
SHOAL_MUST_USE shoal_status_t shoal_lower_order(const build_t *b, const graph_build_t *graph,
                                                int32_t *order);

#endif  // SHOAL_LOWER_BUILD_H_
