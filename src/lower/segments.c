// Pass `segments`: every item gets the segment in which it runs, its queue and, if it communicates,
// its lane.
//
// The segments of a graph are the phases and depths in which something runs, in this order. In the
// loop of a graph with a schedule they are the works of its stages (stages.c says where items go).
// A reshard between meshes that share no rank has two: the sender's and the receiver's.
#include "base/status.h"
#include "lower/build.h"
#include "lower/loop.h"

static const char *const phase_names[PHASE_COUNT] = {"before", "loop", "after", "commit"};

// Numbers of the segments: [depth * PHASE_COUNT + phase]; first only whether there is one.
typedef struct numbering {
  int32_t depths;
  int32_t *numbers;
} numbering_t;

static int32_t *number_of(const numbering_t *n, phase_t phase, int32_t depth) {
  return &n->numbers[depth * PHASE_COUNT + (int32_t)phase];
}

static shoal_status_t number_segments(build_t *b, graph_build_t *graph, const numbering_t *n) {
  for (int phase = 0; phase < PHASE_COUNT; ++phase)
    for (int32_t depth = 0; depth < n->depths; ++depth) {
      int32_t *number = number_of(n, (phase_t)phase, depth);
      if (*number == 0) continue;
      *number = (int32_t)graph->segments.count;
      item_segment_t segment = {.phase = (phase_t)phase, .depth = depth};
      char place[16];
      if (phase == PHASE_LOOP && graph->loop) {
        shoal_lower_place_name(graph, depth, place);
        segment.name = shoal_arena_printf(b->arena, "%s.loop.%s", graph->name, place);
        graph->loop->segments[depth] = *number;
      } else {
        segment.name =
            shoal_arena_printf(b->arena, "%s.%s.%d", graph->name, phase_names[phase], depth);
      }
      if (!segment.name || !SHOAL_PUSH(b->arena, &graph->segments, segment)) return SHOAL_OOM();
    }
  return NULL;
}

static void choose_queue(item_t *item) {
  const shoal_opcode_t opcode = item->code.opcode;
  item->code.queue = item->code.channels ? SHOAL_QUEUE_COMM
                     : opcode == SHOAL_OPCODE_FEED || opcode == SHOAL_OPCODE_FETCH
                         ? SHOAL_QUEUE_COPY
                         : SHOAL_QUEUE_COMPUTE;
}

static shoal_status_t divide_graph(build_t *b, graph_build_t *graph, shoal_arena_t *scratch) {
  numbering_t n = {0};
  SHOAL_RETURN_IF_ERROR(shoal_lower_place(b, graph, scratch));
  for (int64_t i = 0; i < graph->items.count; ++i) {
    const item_t *item = graph->items.items[i];
    const int32_t depth = item->depth > item->send_depth ? item->depth : item->send_depth;
    if (depth >= n.depths) n.depths = depth + 1;
  }
  n.numbers = SHOAL_NEW(scratch, int32_t, n.depths * PHASE_COUNT);
  if (!n.numbers) return SHOAL_OOM();
  for (int64_t i = 0; i < graph->items.count; ++i) {
    const item_t *item = graph->items.items[i];
    *number_of(&n, item->phase, item->depth) = *number_of(&n, item->phase, item->send_depth) = 1;
  }
  SHOAL_RETURN_IF_ERROR(number_segments(b, graph, &n));
  for (int64_t i = 0; i < graph->items.count; ++i) {
    item_t *item = graph->items.items[i];
    item->segment = *number_of(&n, item->phase, item->depth);
    item->send_segment = *number_of(&n, item->phase, item->send_depth);
    choose_queue(item);
  }
  return NULL;
}

shoal_status_t shoal_lower_pass_segments(build_t *b) {
  shoal_arena_t scratch;
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < b->channels.count; ++i) {
    shoal_channel_t *channel = &b->channels.items[i];
    channel->lane = shoal_lower_share_ranks(b, channel->src, channel->dst)
                        ? SHOAL_LOWER_LANE_GROUPS
                        : SHOAL_LOWER_LANE_MESSAGES;
  }
  shoal_arena_init(b->plan->allocator, &scratch);
  for (int64_t g = 0; g < b->graph_count && !status; ++g)
    status = divide_graph(b, &b->graphs[g], &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}
