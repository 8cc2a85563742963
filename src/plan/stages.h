// Stages of a graph: which piece of a pipeline each node belongs to, and with which kind of work.
#ifndef SHOAL_PLAN_STAGES_H_
#define SHOAL_PLAN_STAGES_H_

#include "plan/plan.h"
#include "shoal/schedule.h"

enum {
  SHOAL_STAGE_ANY = -1,   // it depends on states alone: it can run wherever it is needed
  SHOAL_STAGE_NONE = -2,  // no stage on its mesh can run it
};

typedef struct shoal_stages {
  int32_t count;
  int32_t *meshes;      // by stage: a number of plan->meshes
  int32_t *of_node;     // its stage, or one of the above
  shoal_work_t *works;  // by node: as if backward were split
} shoal_stages_t;

// A stage begins wherever the forward pass goes on to another mesh; its gradients belong to it too.
// What cannot be placed is marked, not refused: it may not be part of the loop over micro-batches.
// Needs the meshes of the nodes, not their ways. Linear in the graph and in nodes times stages only
// where meshes alternate. Lies in the arena.
SHOAL_MUST_USE shoal_status_t shoal_plan_stages(const shoal_graph_plan_t *gp, shoal_arena_t *arena,
                                                shoal_stages_t *out_stages);
// By node: its stage, if the graph's schedule has meshes with several of them; else NULL.
SHOAL_MUST_USE shoal_status_t shoal_plan_several_stages(const shoal_graph_plan_t *gp,
                                                        shoal_arena_t *arena,
                                                        const int32_t **out_stages);
// The largest stage that is at most `most` and on this mesh; SHOAL_STAGE_NONE: there is none.
int32_t shoal_stages_at_most(const shoal_stages_t *stages, int32_t most, int32_t mesh);

// Makes gp->schedule from what a decision chooses: a generator's name, or "table" and its text.
SHOAL_MUST_USE shoal_status_t shoal_plan_schedule(shoal_plan_t *plan, shoal_graph_plan_t *gp,
                                                  const char *choice);

#endif  // SHOAL_PLAN_STAGES_H_
