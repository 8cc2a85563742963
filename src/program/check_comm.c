// Communication, per graph: nobody waits for ever, and messages meet the receive they are meant
// for.
//
// Ranks of one class run the same list, and what a reshard moves between whom follows from its two
// layouts alone; so ranks need not be walked. One reshard in one call - a *meeting* - is one event
// of every class that takes part. A class on the destination's mesh is over with it when all such
// classes have come to it and all others have sent; a class that only sends posts its messages and
// goes on. Events that can happen happen, class by class, until all have or none can: then every
// class that is left waits for another one that is named. The cost is that of classes and calls,
// whatever the number of ranks.
//
// That is stricter than what the ranks do: one that exchanges nothing in a meeting would not wait.
// Programs that only run because of that are refused.
//
// Messages between two ranks match in order. Where all meet the order is theirs together; where a
// class only sends, both ends must list what passes from one to the other in the same order.
#include <string.h>

#include "program/check_impl.h"

typedef struct event {
  int32_t segment, instruction, micro, channel;
  int64_t meeting;
} event_t;

// One channel in one call.
typedef struct meeting {
  int32_t senders, others;  // classes that only send, and the rest
  int32_t sent, arrived;    // of those, how many so far
} meeting_t;

// What passes from one class that only sends to another, as one of the two lists it.
typedef struct passage {
  int64_t from, to;              // classes
  SHOAL_VEC(int64_t) sent, due;  // events of `from`, and of `to`
} passage_t;

typedef struct walker {  // a class
  SHOAL_VEC(event_t) events;
  int64_t at;
  bool arrived;                 // at the present event
  SHOAL_VEC(int64_t) passages;  // it is an end of
} walker_t;

typedef struct comm {
  const check_t *check;
  const shoal_program_t *program;
  const char *graph;
  shoal_arena_t *arena;
  const bool *silent;  // by channel: nothing moves between ranks
  walker_t *walkers;   // by class
  int64_t *first;      // by channel: number of its first meeting
  meeting_t *meetings;
  int64_t meeting_count;
  SHOAL_VEC(int32_t) * members;  // by channel: classes that take part
  shoal_index_t passage_index;
  SHOAL_VEC(passage_t) passages;
} comm_t;

static const shoal_instruction_t *instruction_of(const comm_t *c, int64_t class,
                                                 const event_t *event) {
  return &c->program->classes[class].segments[event->segment].instructions[event->instruction];
}

static bool only_sends(const comm_t *c, int64_t class, const event_t *event) {
  return instruction_of(c, class, event)->outputs[0] < 0;
}

static bool only_receives(const comm_t *c, int64_t class, const event_t *event) {
  return instruction_of(c, class, event)->inputs[0] < 0;
}

static const event_t *present(const comm_t *c, int64_t class) {
  const walker_t *walker = &c->walkers[class];
  return walker->at < walker->events.count ? &walker->events.items[walker->at] : NULL;
}

// ---- what is said -------------------------------------------------------------------

static place_t place_of(const comm_t *c, int64_t class, const event_t *event) {
  return (place_t){.program = c->program,
                   .class = class,
                   .segment = event->segment,
                   .instruction = event->instruction,
                   .graph = c->graph,
                   .micro = event->micro};
}

static void describe(const comm_t *c, int64_t class, const event_t *event, char *buffer,
                     size_t size) {
  place_t place = place_of(c, class, event);
  place.graph = NULL;
  shoal_program_check_where(&place, buffer, size);
}

// The first of the class's ranks that takes part in the event.
static int32_t rank_in(const comm_t *c, int64_t class, const event_t *event) {
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

// `class` has come to its present event; somebody else has not.
static shoal_status_t stuck(const comm_t *c, int64_t class) {
  const event_t *event = present(c, class);
  const place_t place = place_of(c, class, event);
  int64_t missing = class;
  for (int64_t i = 0; i < c->members[event->channel].count; ++i) {
    const int64_t other = c->members[event->channel].items[i];
    const event_t *there = present(c, other);
    if (other == class || (there && there->meeting == event->meeting)) continue;
    bool passed = false;  // it only sent, and has gone on
    for (int64_t k = 0; k < c->walkers[other].at && !passed; ++k) {
      passed = c->walkers[other].events.items[k].meeting == event->meeting;
    }
    if (passed) continue;
    missing = other;
    break;
  }
  char there[400] = "has nothing left to do";
  const event_t *other = present(c, missing);
  if (other) {
    memcpy(there, "is in ", 7);
    describe(c, missing, other, there + 6, sizeof there - 6);
  }
  return MISMATCH(&place, "run the same reshards in the same order on both sides",
                  "deadlock: rank %d waits here for rank %d, which %s", rank_in(c, class, event),
                  rank_in(c, missing, event), there);
}

static shoal_status_t out_of_order(const comm_t *c, const passage_t *passage, int64_t index) {
  const walker_t *from = &c->walkers[passage->from], *to = &c->walkers[passage->to];
  const event_t *due =
      index < passage->due.count ? &to->events.items[passage->due.items[index]] : NULL;
  const event_t *sent =
      index < passage->sent.count ? &from->events.items[passage->sent.items[index]] : NULL;
  char sender[400];
  if (!due) {
    const place_t place = place_of(c, passage->from, sent);
    return MISMATCH(&place, "receive it, or do not send it",
                    "rank %d sends a message to class %lld that is never received",
                    rank_in(c, passage->from, sent), (long long)passage->to);
  }
  const place_t place = place_of(c, passage->to, due);
  if (!sent) {
    return MISMATCH(&place, "send it, or do not receive it",
                    "rank %d expects a message of channel %d from class %lld that is never sent",
                    rank_in(c, passage->to, due), due->channel, (long long)passage->from);
  }
  describe(c, passage->from, sent, sender, sizeof sender);
  return MISMATCH(&place, "run the same reshards in the same order on both sides",
                  "rank %d expects a message of channel %d from rank %d, whose next one is of "
                  "channel %d, sent in %s",
                  rank_in(c, passage->to, due), due->channel, rank_in(c, passage->from, due),
                  sent->channel, sender);
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
  const shoal_order_t *order = order_of(c, class);
  walker_t *walker = &c->walkers[class];
  for (int64_t k = 0; order && k < order->call_count; ++k) {
    const shoal_segment_call_t *call = &order->calls[k];
    const shoal_segment_t *segment = &c->program->classes[class].segments[call->segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (in->opcode != SHOAL_OPCODE_RESHARD || c->silent[in->channel]) continue;
      const bool first = call->micro <= 0;
      if (first && !SHOAL_PUSH(c->arena, &c->members[in->channel], (int32_t) class)) {
        return SHOAL_OOM();
      }
      event_t event = {call->segment, (int32_t)i, call->micro, in->channel, 0};
      event.meeting = c->first[in->channel] + (call->micro > 0 ? call->micro : 0);
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
      const place_t place = place_of(c, class, event);
      return MISMATCH(&place, "call it in the same graphs on all ranks of the channel's meshes",
                      "rank %d takes part in channel %d, rank %d does not in this graph",
                      rank_in(c, class, event), event->channel, rank_in(c, other, event));
    }
  }
  return NULL;
}

// ---- passages -----------------------------------------------------------------------

static int64_t find_passage(const comm_t *c, int64_t from, int64_t to) {
  const uint64_t hash = (uint64_t)(from * c->program->class_count + to);
  for (int64_t at = -1, n; (n = shoal_index_next(&c->passage_index, hash, &at)) >= 0;) {
    if (c->passages.items[n].from == from && c->passages.items[n].to == to) return n;
  }
  return -1;
}

// Pairs of classes between which one ever only sends.
static shoal_status_t make_passages(comm_t *c, int64_t class) {
  const walker_t *walker = &c->walkers[class];
  for (int64_t i = 0; i < walker->events.count; ++i) {
    const event_t *event = &walker->events.items[i];
    if (event->micro > 0 || !only_sends(c, class, event)) continue;
    for (int64_t k = 0; k < c->members[event->channel].count; ++k) {
      const int64_t other = c->members[event->channel].items[k];
      if (other == class || find_passage(c, class, other) >= 0) continue;
      const passage_t passage = {.from = class, .to = other};
      const uint64_t hash = (uint64_t)(class * c->program->class_count + other);
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
      if (!mine || !is_end(c, other, event->channel, !sends)) continue;
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

// ---- walking ------------------------------------------------------------------------

// Lets a class go as far as it can; true: it moved, and others may go on for it.
static bool go(comm_t *c, int64_t class) {
  walker_t *walker = &c->walkers[class];
  bool moved = false;
  for (const event_t *event; (event = present(c, class));) {
    meeting_t *meeting = &c->meetings[event->meeting];
    if (only_sends(c, class, event)) {
      ++meeting->sent;
    } else {
      if (!walker->arrived) {
        ++meeting->arrived;
        moved = walker->arrived = true;
      }
      if (meeting->arrived < meeting->others || meeting->sent < meeting->senders) return moved;
    }
    ++walker->at;
    walker->arrived = false;
    moved = true;
  }
  return moved;
}

static shoal_status_t walk(comm_t *c) {
  const int64_t count = c->program->class_count;
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t class = 0; class < count; ++class) moved |= go(c, class);
  }
  for (int64_t class = 0; class < count; ++class) {
    if (present(c, class)) return stuck(c, class);
  }
  return NULL;
}

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
  SHOAL_RETURN_IF_ERROR(walk(c));
  for (int64_t i = 0; i < c->passages.count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_passage(c, &c->passages.items[i]));
  }
  return NULL;
}

// ---- all together -------------------------------------------------------------------

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
