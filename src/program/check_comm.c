// Communication, per graph: nobody waits for ever, and messages meet the receive they are meant
// for.
//
// Ranks of one class run the same list, and what a reshard moves between whom follows from its two
// layouts alone; so ranks need not be walked. One reshard in one call - a *meeting* - is one event
// of every class that takes part. A class on the destination's mesh is over with it when all such
// classes have come to it and all others have sent; a class that only sends posts its messages and
// goes on. check_walk.c lets all queues of all classes run so. The cost is that of classes and
// calls, whatever the number of ranks.
//
// That is stricter than what the ranks do: one that exchanges nothing in a meeting would not wait.
// Programs that only run because of that are refused.
//
// Messages between two ranks match in order, lane by lane; all of a class's sends in a lane lie on
// one queue, and all its receives (check_calls.c). Where all meet the order is theirs together;
// where a class only sends, both ends must list what passes from one to the other in the same
// order.
#include "program/check_comm.h"

#include <string.h>

static bool only_sends(const comm_t *c, int64_t class, const event_t *event) {
  return shoal_comm_instruction(c, class, event)->outputs[0] < 0;
}

static bool only_receives(const comm_t *c, int64_t class, const event_t *event) {
  return shoal_comm_instruction(c, class, event)->inputs[0] < 0;
}

// ---- what is said -------------------------------------------------------------------

place_t shoal_comm_place(const comm_t *c, int64_t class, const event_t *event) {
  return (place_t){.program = c->program,
                   .class = class,
                   .segment = event->segment,
                   .instruction = event->instruction,
                   .graph = c->graph,
                   .micro = event->micro};
}

static void describe(const comm_t *c, int64_t class, const event_t *event, char *buffer,
                     size_t size) {
  place_t place = shoal_comm_place(c, class, event);
  place.graph = NULL;
  shoal_program_check_where(&place, buffer, size);
}

int32_t shoal_comm_rank(const comm_t *c, int64_t class, const event_t *event) {
  const shoal_channel_t *channel = &c->program->channels[event->channel];
  const shoal_class_t *ranks = &c->program->classes[class];
  for (int64_t i = 0; i < ranks->rank_count; ++i) {
    if (shoal_mesh_position(channel->src->mesh, ranks->ranks[i]) >= 0 ||
        shoal_mesh_position(channel->dst->mesh, ranks->ranks[i]) >= 0) {
      return ranks->ranks[i];
    }
  }
  return ranks->rank_count > 0 ? ranks->ranks[0] : -1;
}

static shoal_status_t out_of_order(const comm_t *c, const passage_t *passage, int64_t index) {
  const walker_t *from = &c->walkers[passage->from], *to = &c->walkers[passage->to];
  const event_t *due =
      index < passage->due.count ? &to->events.items[passage->due.items[index]] : NULL;
  const event_t *sent =
      index < passage->sent.count ? &from->events.items[passage->sent.items[index]] : NULL;
  char sender[400];
  if (!due) {
    const place_t place = shoal_comm_place(c, passage->from, sent);
    return MISMATCH(&place, "receive it, or do not send it",
                    "rank %d sends a message to class %lld that is never received",
                    shoal_comm_rank(c, passage->from, sent), (long long)passage->to);
  }
  const place_t place = shoal_comm_place(c, passage->to, due);
  if (!sent) {
    return MISMATCH(&place, "send it, or do not receive it",
                    "rank %d expects a message of channel %d from class %lld that is never sent",
                    shoal_comm_rank(c, passage->to, due), due->channel, (long long)passage->from);
  }
  describe(c, passage->from, sent, sender, sizeof sender);
  return MISMATCH(&place, "run the same reshards in the same order on both sides",
                  "rank %d expects a message of channel %d from rank %d, whose next one is of "
                  "channel %d, sent in %s",
                  shoal_comm_rank(c, passage->to, due), due->channel,
                  shoal_comm_rank(c, passage->from, due), sent->channel, sender);
}

// ---- events -------------------------------------------------------------------------

static const shoal_order_t *order_of(const comm_t *c, int64_t class) {
  const shoal_class_t *all = &c->program->classes[class];
  for (int64_t i = 0; i < all->order_count; ++i) {
    if (strcmp(all->orders[i].graph, c->graph) == 0) return &all->orders[i];
  }
  return NULL;
}

// A class takes part in every meeting of a channel, or in none: it calls a segment in all
// micro-batches (check_structure.c).
static shoal_status_t list_events(comm_t *c, int64_t class) {
  walker_t *walker = &c->walkers[class];
  walker->class = &c->program->classes[class];
  walker->order = order_of(c, class);
  const shoal_order_t *order = walker->order;
  for (int64_t k = 0; order && k < order->call_count; ++k) {
    const shoal_segment_call_t *call = &order->calls[k];
    const shoal_segment_t *segment = &c->program->classes[class].segments[call->segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (!in->channels || c->silent[in->channels[0]]) continue;
      const int32_t channel = in->channels[0];
      const bool first = call->micro <= 0;
      if (first && !SHOAL_PUSH(c->arena, &c->members[channel], (int32_t) class)) {
        return SHOAL_OOM();
      }
      const event_t event = {k,          call->segment,
                             (int32_t)i, call->micro,
                             channel,    shoal_comm_meeting(c, channel, call->micro)};
      if (!SHOAL_PUSH(c->arena, &walker->events, event)) return SHOAL_OOM();
      meeting_t *meeting = &c->meetings[event.meeting];
      if (in->outputs[0] < 0)
        ++meeting->senders;
      else
        ++meeting->others;
    }
  }
  return NULL;
}

static bool takes_part(const comm_t *c, int64_t class, int32_t channel) {
  int64_t low = 0, high = c->members[channel].count;  // classes were added in ascending order
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (c->members[channel].items[middle] < class)
      low = middle + 1;
    else
      high = middle;
  }
  return low < c->members[channel].count && c->members[channel].items[low] == class;
}

// Whoever is on a channel's meshes has a reshard for it (check_instructions.c); in a graph where
// one class calls it, all do.
static shoal_status_t check_members(const comm_t *c, int64_t class) {
  const walker_t *walker = &c->walkers[class];
  for (int64_t i = 0; i < walker->events.count; ++i) {
    const event_t *event = &walker->events.items[i];
    const shoal_channel_t *channel = &c->program->channels[event->channel];
    // The first of those that take part asks for all.
    if (event->micro > 0 || c->members[event->channel].items[0] != class) continue;
    for (int64_t other = 0; other < c->program->class_count; ++other) {
      if (takes_part(c, other, event->channel) ||
          !(shoal_program_check_present(c->check, other, channel->src->mesh) ||
            shoal_program_check_present(c->check, other, channel->dst->mesh))) {
        continue;
      }
      const place_t place = shoal_comm_place(c, class, event);
      return MISMATCH(&place, "call it in the same graphs on all ranks of the channel's meshes",
                      "rank %d takes part in channel %d, rank %d does not in this graph",
                      shoal_comm_rank(c, class, event), event->channel,
                      shoal_comm_rank(c, other, event));
    }
  }
  return NULL;
}

// ---- passages -----------------------------------------------------------------------

static uint64_t hash_passage(const comm_t *c, int64_t from, int64_t to, int32_t lane) {
  return (uint64_t)((from * c->program->class_count + to) * SHOAL_MAX_LANES + lane);
}

static int32_t lane_of(const comm_t *c, const event_t *event) {
  return c->program->channels[event->channel].lane;
}

static int64_t find_passage(const comm_t *c, int64_t from, int64_t to, int32_t lane) {
  const uint64_t hash = hash_passage(c, from, to, lane);
  for (int64_t at = -1, n; (n = shoal_index_next(&c->passage_index, hash, &at)) >= 0;) {
    const passage_t *passage = &c->passages.items[n];
    if (passage->from == from && passage->to == to && passage->lane == lane) return n;
  }
  return -1;
}

// Pairs of classes between which one ever only sends on a lane.
static shoal_status_t make_passages(comm_t *c, int64_t class) {
  const walker_t *walker = &c->walkers[class];
  for (int64_t i = 0; i < walker->events.count; ++i) {
    const event_t *event = &walker->events.items[i];
    if (event->micro > 0 || !only_sends(c, class, event)) continue;
    for (int64_t k = 0; k < c->members[event->channel].count; ++k) {
      const int64_t other = c->members[event->channel].items[k];
      const int32_t lane = lane_of(c, event);
      if (other == class || find_passage(c, class, other, lane) >= 0) continue;
      const passage_t passage = {.from = class, .to = other, .lane = lane};
      const uint64_t hash = hash_passage(c, class, other, lane);
      if (!shoal_index_add(&c->passage_index, hash, c->passages.count) ||
          !SHOAL_PUSH(c->arena, &c->walkers[class].passages, c->passages.count) ||
          !SHOAL_PUSH(c->arena, &c->walkers[other].passages, c->passages.count) ||
          !SHOAL_PUSH(c->arena, &c->passages, passage)) {
        return SHOAL_OOM();
      }
    }
  }
  return NULL;
}

// Does the other end of the passage receive, or send, in this event?
static bool is_end(const comm_t *c, int64_t class, int32_t channel, bool sender) {
  if (!takes_part(c, class, channel)) return false;
  const shoal_channel_t *moved = &c->program->channels[channel];
  return shoal_program_check_present(c->check, class, sender ? moved->src->mesh : moved->dst->mesh);
}

static shoal_status_t list_passages(comm_t *c, int64_t class) {
  walker_t *walker = &c->walkers[class];
  for (int64_t p = 0; p < walker->passages.count; ++p) {
    passage_t *passage = &c->passages.items[walker->passages.items[p]];
    const bool sends = passage->from == class;
    const int64_t other = sends ? passage->to : passage->from;
    for (int64_t i = 0; i < walker->events.count; ++i) {
      const event_t *event = &walker->events.items[i];
      const bool mine = sends ? !only_receives(c, class, event) : !only_sends(c, class, event);
      if (!mine || lane_of(c, event) != passage->lane) continue;
      if (!is_end(c, other, event->channel, !sends)) continue;
      if (sends ? !SHOAL_PUSH(c->arena, &passage->sent, i)
                : !SHOAL_PUSH(c->arena, &passage->due, i)) {
        return SHOAL_OOM();
      }
    }
  }
  return NULL;
}

static shoal_status_t check_passage(const comm_t *c, const passage_t *passage) {
  for (int64_t i = 0; i < passage->sent.count || i < passage->due.count; ++i) {
    if (i >= passage->sent.count || i >= passage->due.count) return out_of_order(c, passage, i);
    const event_t *sent = &c->walkers[passage->from].events.items[passage->sent.items[i]];
    const event_t *due = &c->walkers[passage->to].events.items[passage->due.items[i]];
    if (sent->meeting != due->meeting) return out_of_order(c, passage, i);
  }
  return NULL;
}

// ---- one graph ----------------------------------------------------------------------

static shoal_status_t check_graph(comm_t *c) {
  const shoal_program_t *program = c->program;
  c->walkers = SHOAL_NEW(c->arena, walker_t, program->class_count);
  c->first = SHOAL_NEW(c->arena, int64_t, program->channel_count);
  c->members = shoal_arena_alloc(c->arena, (size_t)program->channel_count, sizeof *c->members);
  shoal_index_init(c->arena, &c->passage_index);
  if (!c->walkers || !c->first || !c->members) return SHOAL_OOM();
  for (int64_t i = 0; i < program->channel_count; ++i) {
    c->first[i] = c->meeting_count;
    if (!c->silent[i]) c->meeting_count += program->channels[i].micro ? program->micro : 1;
  }
  c->meetings = SHOAL_NEW(c->arena, meeting_t, c->meeting_count);
  if (!c->meetings) return SHOAL_OOM();
  for (int64_t k = 0; k < program->class_count; ++k) SHOAL_RETURN_IF_ERROR(list_events(c, k));
  for (int64_t k = 0; k < program->class_count; ++k) SHOAL_RETURN_IF_ERROR(check_members(c, k));
  for (int64_t k = 0; k < program->class_count; ++k) SHOAL_RETURN_IF_ERROR(make_passages(c, k));
  for (int64_t k = 0; k < program->class_count; ++k) SHOAL_RETURN_IF_ERROR(list_passages(c, k));
  SHOAL_RETURN_IF_ERROR(shoal_comm_walk(c));
  SHOAL_RETURN_IF_ERROR(shoal_comm_host_order(c));
  for (int64_t i = 0; i < c->passages.count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_passage(c, &c->passages.items[i]));
  }
  return NULL;
}

// ---- all together -------------------------------------------------------------------

// The first channel stands for all that a reshard carries: it is silent if all are.
static void join_silent(const shoal_program_t *program, bool *silent) {
  for (int64_t c = 0; c < program->class_count; ++c) {
    const shoal_class_t *class = &program->classes[c];
    for (int64_t s = 0; s < class->segment_count; ++s) {
      for (int64_t i = 0; i < class->segments[s].instruction_count; ++i) {
        const shoal_instruction_t *in = &class->segments[s].instructions[i];
        for (int32_t k = 1; k < shoal_instruction_channels(in); ++k) {
          silent[in->channels[0]] &= silent[in->channels[k]];
        }
      }
    }
  }
}

// Channels along which no rank sends anything to another, in any micro-batch.
static shoal_status_t find_silent(const check_t *check, const bool **out_silent) {
  const shoal_program_t *program = check->program;
  shoal_arena_t *scratch = check->scratch;
  bool *silent = SHOAL_NEW(scratch, bool, program->channel_count);
  shoal_memo_t memo;
  shoal_key_t key;
  shoal_memo_init(scratch, &memo);
  shoal_key_init(scratch, &key);
  if (!silent) return SHOAL_OOM();
  for (int64_t i = 0; i < program->channel_count; ++i) {
    const shoal_channel_t *channel = &program->channels[i];
    int64_t answer = 0;
    shoal_key_clear(&key);
    shoal_key_add_pointer(&key, channel->src);
    shoal_key_add_pointer(&key, channel->dst);
    shoal_key_add_type(&key, &channel->type);
    if (!shoal_memo_find(&memo, &key, &answer)) {
      bool quiet = false;
      shoal_status_t status = shoal_channel_is_silent(channel, program->micro, scratch, &quiet);
      if (status) {
        const place_t nowhere = {.program = program, .class = -1, .micro = -1};
        return shoal_program_check_at(&nowhere,
                                      shoal_status_annotatef(status, "channel %lld", (long long)i));
      }
      answer = quiet;
      if (!shoal_memo_add(&memo, &key, answer)) return SHOAL_OOM();
    }
    silent[i] = answer != 0;
  }
  join_silent(program, silent);
  *out_silent = silent;
  return NULL;
}

shoal_status_t shoal_program_check_comm(const check_t *check) {
  // Every class has orders for the same graphs.
  const shoal_class_t *first = &check->program->classes[0];
  const bool *silent = NULL;
  SHOAL_RETURN_IF_ERROR(find_silent(check, &silent));
  for (int64_t i = 0; i < first->order_count; ++i) {
    shoal_arena_t arena;
    shoal_arena_init(check->scratch->allocator, &arena);
    comm_t c = {.check = check,
                .program = check->program,
                .graph = first->orders[i].graph,
                .arena = &arena,
                .silent = silent};
    shoal_status_t status = check_graph(&c);
    shoal_arena_deinit(&arena);
    SHOAL_RETURN_IF_ERROR(status);
  }
  return NULL;
}
