// The queues of actors: which instruction each is at, and what that one waits for.
//
// A queue goes through its instructions call after call and step after step. Because they are done
// in order, one position for each queue says of every instruction, however long ago, whether it is
// done: nothing is kept for each instruction or call. Waits that are over stay over, so that each
// is looked at about once.
#include "simulate/queues.h"

#include <stdlib.h>

// ---- tables of a class ----------------------------------------------------------------

static shoal_status_t list_segment(shoal_sim_t *sim, const shoal_segment_t *segment,
                                   shoal_sim_lists_t *out) {
  const int64_t count = segment->instruction_count;
  out->spots = SHOAL_NEW(sim->arena, shoal_sim_spot_t, count);
  if (!out->spots) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const int32_t q = sim->one_queue ? 0 : segment->instructions[i].queue;
    out->spots[i] = (shoal_sim_spot_t){q, (int32_t)out->queues[q].count++};
  }
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
    out->queues[q].items = SHOAL_NEW(sim->arena, int32_t, out->queues[q].count);
    if (!out->queues[q].items) return SHOAL_OOM();
  }
  for (int64_t i = 0; i < count; ++i) {
    out->queues[out->spots[i].queue].items[out->spots[i].position] = (int32_t)i;
  }
  return NULL;
}

static int compare_waits(const void *a, const void *b) {
  const shoal_call_wait_t *x = a, *y = b;
  return (x->instruction > y->instruction) - (x->instruction < y->instruction);
}

// The waits of each call by instruction: a queue meets them in this order.
static shoal_status_t sort_waits(shoal_sim_t *sim, const shoal_order_t *order,
                                 const shoal_call_wait_t ***out_waits) {
  *out_waits = SHOAL_NEW(sim->arena, const shoal_call_wait_t *, order->call_count);
  if (!*out_waits) return SHOAL_OOM();
  for (int64_t k = 0; k < order->call_count; ++k) {
    const shoal_segment_call_t *call = &order->calls[k];
    bool sorted = true;
    for (int32_t w = 1; w < call->wait_count; ++w) {
      sorted &= compare_waits(&call->waits[w - 1], &call->waits[w]) <= 0;
    }
    (*out_waits)[k] = call->waits;
    if (sorted) continue;
    shoal_call_wait_t *waits =
        shoal_arena_copy(sim->arena, call->waits, (size_t)call->wait_count, sizeof *waits);
    if (!waits) return SHOAL_OOM();
    qsort(waits, (size_t)call->wait_count, sizeof *waits, compare_waits);
    (*out_waits)[k] = waits;
  }
  return NULL;
}

// ---- positions ------------------------------------------------------------------------

// Enters the queue's call, or the next one that has instructions on it.
static shoal_status_t enter_call(shoal_sim_t *sim, shoal_sim_player_t *player,
                                 shoal_sim_queue_t *queue) {
  const int64_t index = queue - player->queues;
  for (; queue->call < player->call_count; ++queue->call) {
    const int64_t k = queue->call % player->order->call_count;
    const shoal_segment_call_t *call = &player->order->calls[k];
    const shoal_sim_list_t *list = &player->lists[call->segment].queues[index];
    if (list->count == 0) continue;
    const int32_t micro = call->micro < sim->program->micro ? call->micro : -1;
    const shoal_class_t *rank_class = sim->actors[player->actor].rank_class;
    *queue = (shoal_sim_queue_t){.call = queue->call,
                                 .segment = &rank_class->segments[call->segment],
                                 .order_call = call,
                                 .waits = player->waits[k],
                                 .micro = call->micro,
                                 .variant = sim->variants[micro + 1],
                                 .items = list->items,
                                 .count = list->count};
    return shoal_sim_segment(sim, player->actor, call->segment, queue->variant, &queue->seconds);
  }
  queue->count = queue->at = 0;
  return NULL;
}

shoal_status_t shoal_sim_queue_next(shoal_sim_t *sim, shoal_sim_player_t *player,
                                    shoal_sim_queue_t *queue) {
  queue->running = false;
  queue->local_waits = 0;
  if (++queue->at < queue->count) return NULL;
  ++queue->call;
  return enter_call(sim, player, queue);
}

static bool is_done(const shoal_sim_player_t *player, int64_t call, int32_t instruction) {
  const int32_t segment = player->order->calls[call % player->order->call_count].segment;
  const shoal_sim_lists_t *lists = &player->lists[segment];
  const shoal_sim_queue_t *queue = &player->queues[lists->spots[instruction].queue];
  return queue->call > call ||
         (queue->call == call && queue->at > lists->spots[instruction].position);
}

// All of the steps up to `step` are done.
static bool is_step_done(const shoal_sim_player_t *player, int64_t step) {
  for (int32_t q = 0; q < player->queue_count; ++q) {
    if (player->queues[q].call < (step + 1) * player->order->call_count) return false;
  }
  return true;
}

bool shoal_sim_queue_ready(shoal_sim_player_t *player, shoal_sim_queue_t *queue) {
  const int32_t head = shoal_sim_queue_head(queue);
  const shoal_instruction_t *in = &queue->segment->instructions[head];
  for (; queue->local_waits < in->wait_count; ++queue->local_waits) {
    if (!is_done(player, queue->call, in->waits[queue->local_waits])) return false;
  }
  for (; queue->call_waits < queue->order_call->wait_count; ++queue->call_waits) {
    const shoal_call_wait_t *wait = &queue->waits[queue->call_waits];
    if (wait->instruction > head) break;
    // Those of earlier instructions are of other queues. Before the first step there is nothing.
    if (wait->instruction < head || wait->back > queue->call) continue;
    if (!is_done(player, queue->call - wait->back, wait->other)) return false;
  }
  const int64_t step = shoal_sim_queue_step(player, queue);
  return step < SHOAL_SIM_IN_FLIGHT || is_step_done(player, step - SHOAL_SIM_IN_FLIGHT);
}

double shoal_sim_player_idle(const shoal_sim_player_t *player, double now) {
  return player->idle + (player->computing > 0 ? 0 : now - player->since);
}

// ---- all together ---------------------------------------------------------------------

shoal_status_t shoal_sim_players_create(shoal_sim_t *sim, int64_t steps,
                                        shoal_sim_player_t **out_players) {
  shoal_sim_player_t *players = SHOAL_NEW(sim->arena, shoal_sim_player_t, sim->actor_count);
  if (!players) return SHOAL_OOM();
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    const shoal_sim_actor_t *actor = &sim->actors[a];
    shoal_sim_player_t *player = &players[a];
    *player = (shoal_sim_player_t){.actor = (int32_t)a, .order = actor->order};
    if (!actor->order) continue;
    player->queue_count = sim->one_queue ? 1 : actor->rank_class->queue_count;
    player->call_count = steps * actor->order->call_count;
    player->uses = SHOAL_NEW(sim->arena, int64_t, sim->program->channel_count);
    if (!player->uses) return SHOAL_OOM();
    if (a > 0 && players[a - 1].lists && actor[-1].class_index == actor->class_index) {
      player->lists = players[a - 1].lists;
      player->waits = players[a - 1].waits;
    } else {
      player->lists = SHOAL_NEW(sim->arena, shoal_sim_lists_t, actor->rank_class->segment_count);
      if (!player->lists) return SHOAL_OOM();
      for (int64_t k = 0; k < actor->order->call_count; ++k) {
        const int32_t segment = actor->order->calls[k].segment;
        if (player->lists[segment].spots) continue;
        SHOAL_RETURN_IF_ERROR(
            list_segment(sim, &actor->rank_class->segments[segment], &player->lists[segment]));
      }
      SHOAL_RETURN_IF_ERROR(sort_waits(sim, actor->order, &player->waits));
    }
    for (int32_t q = 0; q < player->queue_count; ++q) {
      SHOAL_RETURN_IF_ERROR(enter_call(sim, player, &player->queues[q]));
    }
  }
  *out_players = players;
  return NULL;
}
