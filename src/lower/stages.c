// Where the schedule of a graph puts the items of its loop.
//
// A node has its stage and work (plan/stages.h). The others go with the item they serve: what
// leaves the loop (an accumulation, a gathered output) with the one that makes the value, what
// enters it or changes its layout with the first that needs it. A reshard between meshes is sent
// with the work that makes its value and received with the next work of the other mesh that comes
// behind it in every table: so that all messages of one call are received in one call, and come in
// the same order on both sides (messages.c).
//
// Whatever table is given, F of a stage comes behind F of the stages before it, B behind F and
// behind B of the stages behind it, W behind B. An item that reads what no table makes before it is
// refused by name.
#include <stdio.h>

#include "base/status.h"
#include "lower/build.h"
#include "lower/loop.h"

enum { NOWHERE = -1 };

typedef struct placing {
  build_t *b;
  graph_build_t *graph;
  loop_plan_t *loop;
  int32_t *wanted;  // by instance: where it is needed first; NOWHERE: by nobody, or not yet known
  int32_t *made;    // by instance: where it is made; NOWHERE: before the loop
} placing_t;

void shoal_lower_place_name(const graph_build_t *graph, int32_t place, char out[16]) {
  snprintf(out, 16, "%c%d", "FBW"[shoal_lower_place_work(graph->loop, place)],
           shoal_lower_place_stage(graph->loop, place));
}

// ---- order of places -------------------------------------------------------------------

// Does every table run `first` of a micro-batch before `second`?
static bool is_before(const loop_plan_t *loop, int32_t first, int32_t second) {
  const shoal_work_t from = shoal_lower_place_work(loop, first);
  const shoal_work_t to = shoal_lower_place_work(loop, second);
  const int32_t s = shoal_lower_place_stage(loop, first);
  const int32_t t = shoal_lower_place_stage(loop, second);
  if (first == second) return true;
  if (from == SHOAL_WORK_FORWARD) return to != SHOAL_WORK_FORWARD || s < t;
  if (from == SHOAL_WORK_BACKWARD)
    return (to == SHOAL_WORK_BACKWARD && t < s) || (to == SHOAL_WORK_WEIGHT && t <= s);
  return false;
}

// A place that is before both, at most as late as needed. W is before nothing: then it is B.
static int32_t earlier(const loop_plan_t *loop, int32_t a, int32_t b) {
  if (a == NOWHERE || b == NOWHERE) return a == NOWHERE ? b : a;
  const int32_t first = a < b ? a : b;
  if (a == b || shoal_lower_place_work(loop, first) != SHOAL_WORK_WEIGHT) return first;
  return first - 1;
}

// The last place on a mesh from which something can be sent in time for `place` on another mesh.
static int32_t last_before(const loop_plan_t *loop, int32_t mesh, int32_t place) {
  const shoal_stages_t *stages = &loop->stages;
  const int32_t stage = shoal_lower_place_stage(loop, place);
  if (shoal_lower_place_work(loop, place) == SHOAL_WORK_FORWARD)
    return shoal_stages_at_most(stages, stage - 1, mesh);
  for (int32_t s = stage + 1; s < stages->count; ++s)
    if (stages->meshes[s] == mesh) return shoal_lower_place_of(loop, SHOAL_WORK_BACKWARD, s);
  return shoal_stages_at_most(stages, stages->count - 1, mesh);
}

// The first place on a mesh where something from `place` on another mesh can be received.
static int32_t first_after(const loop_plan_t *loop, int32_t mesh, int32_t place) {
  const int32_t count = loop->stages.count, last = 3 * count;
  for (int32_t p = place + 1; p < last; ++p)
    if (loop->stages.meshes[shoal_lower_place_stage(loop, p)] == mesh && is_before(loop, place, p))
      return p;
  return NOWHERE;
}

// ---- items -----------------------------------------------------------------------------

static int32_t mesh_at(const placing_t *p, int32_t instance) {
  return (int32_t)(instance_at(p->b, instance)->layout->mesh - p->b->meshes);
}

static bool crosses(const placing_t *p, const item_t *item) {
  return item->code.opcode == SHOAL_OPCODE_RESHARD &&
         mesh_at(p, item->code.inputs[0]) != mesh_at(p, item->code.outputs[0]);
}

// Does it take a value out of the loop?
static bool leaves(const placing_t *p, const item_t *item) {
  return item->code.output_count > 0 &&
         instance_at(p->b, item->code.outputs[0])->phase == PHASE_AFTER;
}

static int32_t stage_of(const placing_t *p, const item_t *item) {
  return item->node < 0 ? SHOAL_STAGE_ANY : p->loop->stages.of_node[item->node];
}

// The place of a node of a stage; what it computes again belongs to the backward pass.
static int32_t place_of_node(const placing_t *p, const item_t *item, int32_t stage) {
  const shoal_work_t work = item->again ? SHOAL_WORK_BACKWARD : p->loop->stages.works[item->node];
  return shoal_lower_place_of(p->loop, work, stage);
}

static void want(const placing_t *p, int32_t instance, int32_t place) {
  if (instance_at(p->b, instance)->phase != PHASE_LOOP || place == NOWHERE) return;
  p->wanted[instance] = earlier(p->loop, p->wanted[instance], place);
}

// From the last item to the first: where what it reads is needed.
static void look_back(const placing_t *p, const item_t *item) {
  int32_t place = NOWHERE;
  const int32_t stage = stage_of(p, item);
  if (stage >= 0) {
    place = place_of_node(p, item, stage);
  } else if (!leaves(p, item)) {
    for (int32_t o = 0; o < item->code.output_count; ++o)
      place = earlier(p->loop, place, p->wanted[item->code.outputs[o]]);
    if (place != NOWHERE && crosses(p, item))
      place = last_before(p->loop, mesh_at(p, item->code.inputs[0]), place);
  }
  for (int32_t i = 0; i < item->code.input_count && place >= 0; ++i)
    want(p, item->code.inputs[i], place);
}

static shoal_status_t check_meshes(const placing_t *p, const item_t *item) {
  const loop_plan_t *loop = p->loop;
  if (stage_of(p, item) == SHOAL_STAGE_NONE)
    return SHOAL_ERROR_HINT(
        UNSUPPORTED, "put it on a mesh that the forward pass goes through at that point",
        "node '%s' runs in every micro-batch on mesh '%s', where schedule '%s' has no stage for it",
        item->code.name, p->b->plan->meshes[p->graph->gp->nodes[item->node].mesh].name,
        loop->schedule->name);
  if (crosses(p, item) &&
      shoal_lower_share_ranks(p->b, instance_at(p->b, item->code.inputs[0])->layout,
                              instance_at(p->b, item->code.outputs[0])->layout))
    return SHOAL_ERROR_HINT(UNSUPPORTED, "give every stage ranks of its own",
                            "'%s' goes between meshes '%s' and '%s' in every micro-batch, and they "
                            "share ranks",
                            item->code.name, p->b->meshes[mesh_at(p, item->code.inputs[0])].name,
                            p->b->meshes[mesh_at(p, item->code.outputs[0])].name);
  return NULL;
}

// Where an item without a stage of its own goes.
static int32_t find_place(const placing_t *p, const item_t *item) {
  int32_t wanted = NOWHERE, made = NOWHERE;
  for (int32_t o = 0; o < item->code.output_count; ++o)
    wanted = earlier(p->loop, wanted, p->wanted[item->code.outputs[o]]);
  for (int32_t i = 0; i < item->code.input_count; ++i)
    if (p->made[item->code.inputs[i]] > made) made = p->made[item->code.inputs[i]];
  if (crosses(p, item)) return first_after(p->loop, mesh_at(p, item->code.outputs[0]), made);
  if (wanted != NOWHERE && !leaves(p, item)) return wanted;
  if (made != NOWHERE) return made;
  return item->code.output_count == 0
             ? NOWHERE
             : shoal_stages_at_most(&p->loop->stages, p->loop->stages.count - 1,
                                    mesh_at(p, item->code.outputs[0]));
}

// Where a mesh has several stages it may send forward and backward to the same one, in an order
// that differs from that in which they are received: two lanes.
static void choose_lane(const placing_t *p, const item_t *item) {
  const bool back = shoal_lower_place_work(p->loop, item->depth) != SHOAL_WORK_FORWARD;
  for (int32_t i = 0; i < item->code.input_count; ++i)
    p->b->channels.items[item->code.channels[i]].lane =
        back && p->loop->schedule->stage_count > p->loop->schedule->mesh_count
            ? SHOAL_LOWER_LANE_BACK
            : SHOAL_LOWER_LANE_MESSAGES;
}

static shoal_status_t place_item(const placing_t *p, item_t *item) {
  const int32_t stage = stage_of(p, item);
  SHOAL_RETURN_IF_ERROR(check_meshes(p, item));
  int32_t place = stage >= 0 ? place_of_node(p, item, stage) : find_place(p, item);
  if (place < 0)
    return SHOAL_ERROR_HINT(UNSUPPORTED, "give it a layout on the mesh that needs it first",
                            "'%s' is needed in every micro-batch before any stage of its mesh runs",
                            item->code.name);
  for (int32_t i = 0; i < item->code.input_count; ++i) {
    const int32_t made = p->made[item->code.inputs[i]];
    if (made == NOWHERE || is_before(p->loop, made, place)) continue;
    char from[16], to[16];
    shoal_lower_place_name(p->graph, made, from);
    shoal_lower_place_name(p->graph, place, to);
    return SHOAL_ERROR_HINT(UNSUPPORTED, "move the node to another stage",
                            "'%s' is made by %s and read by '%s' in %s, which no schedule runs "
                            "behind it",
                            instance_at(p->b, item->code.inputs[i])->name, from, item->code.name,
                            to);
  }
  item->depth = item->send_depth = place;
  if (crosses(p, item)) {
    item->send_depth = p->made[item->code.inputs[0]];
    choose_lane(p, item);
  }
  for (int32_t o = 0; o < item->code.output_count; ++o)
    if (instance_at(p->b, item->code.outputs[o])->phase == PHASE_LOOP)
      p->made[item->code.outputs[o]] = place;
  return NULL;
}

// ---- graphs ----------------------------------------------------------------------------

static shoal_status_t check_apart(const build_t *b, const loop_plan_t *loop) {
  const int64_t count = b->program->mesh_count;
  for (int32_t s = 0; s < loop->stages.count; ++s)
    for (int32_t t = 0; t < s; ++t) {
      const int32_t x = loop->stages.meshes[t], y = loop->stages.meshes[s];
      if (x != y && b->overlap[x * count + y])
        return SHOAL_ERROR_HINT(UNSUPPORTED, "give every stage ranks of its own",
                                "schedule '%s' wants meshes without common ranks; '%s' and '%s' "
                                "have some",
                                loop->schedule->name, b->meshes[x].name, b->meshes[y].name);
    }
  return NULL;
}

shoal_status_t shoal_lower_place(build_t *b, graph_build_t *graph, shoal_arena_t *scratch) {
  bool loops = false;
  for (int64_t i = 0; i < graph->items.count; ++i)
    loops |= graph->items.items[i]->phase == PHASE_LOOP;
  if (!graph->gp->schedule || !loops) return NULL;
  loop_plan_t *loop = graph->loop = SHOAL_NEW(b->arena, loop_plan_t, 1);
  if (!loop) return SHOAL_OOM();
  loop->schedule = graph->gp->schedule;
  SHOAL_RETURN_IF_ERROR(shoal_plan_stages(graph->gp, b->arena, &loop->stages));
  SHOAL_RETURN_IF_ERROR(check_apart(b, loop));
  placing_t p = {.b = b,
                 .graph = graph,
                 .loop = loop,
                 .wanted = SHOAL_NEW(scratch, int32_t, b->instances.count),
                 .made = SHOAL_NEW(scratch, int32_t, b->instances.count)};
  loop->segments = SHOAL_NEW(b->arena, int32_t, 3 * loop->stages.count);
  if (!p.wanted || !p.made || !loop->segments) return SHOAL_OOM();
  for (int64_t i = 0; i < b->instances.count; ++i) p.wanted[i] = p.made[i] = NOWHERE;
  for (int32_t i = 0; i < 3 * loop->stages.count; ++i) loop->segments[i] = -1;
  for (int64_t i = graph->items.count; i-- > 0;)
    if (graph->items.items[i]->phase == PHASE_LOOP) look_back(&p, graph->items.items[i]);
  for (int64_t i = 0; i < graph->items.count; ++i)
    if (graph->items.items[i]->phase == PHASE_LOOP)
      SHOAL_RETURN_IF_ERROR(place_item(&p, graph->items.items[i]));
  return shoal_lower_order_messages(b, graph, scratch);
}
