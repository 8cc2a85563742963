// Communication, per graph: all ranks are walked in lock step through their reshards, and the walk
// ends.
//
// What a rank does in a reshard follows from the channel and the micro-batch alone
// (shoal_layout_reshard), on all sides: so what can go wrong is the order, and who takes part. A
// rank that only sends goes on at once. One that receives goes on when everything it receives is
// there and everything it sends has been taken: a backend without endless buffers may wait for
// that. Messages between two ranks match in order, by channel, micro-batch, element type and
// number. A collective waits until its whole group has come to it.
//
// In worlds of more than MAX_RANKS ranks only some are walked: one of each class and all that
// exchange anything with it. The others are taken to be on time: ranks of one class run the same
// list. With more than 8 evenly dealt micro-batches those in the middle take the transfers of the
// second.
#include <string.h>

#include "program/check_impl.h"

enum { MAX_RANKS = 32, MAX_WALKED = 256, MANY_MICROS = 8 };

typedef struct event {
  int32_t segment, instruction, micro, channel;
  const shoal_reshard_t *reshard;
} event_t;

typedef struct events {
  event_t *items;
  int64_t count, capacity;
} events_t;

typedef struct message {
  const event_t *event;
  int64_t count;
} message_t;

typedef struct mailbox {  // from one rank to another
  SHOAL_VEC(message_t) sent;
  int64_t taken;
} mailbox_t;

typedef struct walker {
  int32_t rank;
  int64_t class;
  int64_t at;       // event
  bool posted;      // sends of this event
  bool *taken;      // by transfer of this event
  int64_t waiting;  // what for: a walker, or -1
} walker_t;

typedef struct comm {
  const shoal_program_t *program;
  const char *graph;
  shoal_arena_t *keep;                // for the whole check: transfers
  shoal_arena_t *arena;               // for this graph
  const shoal_reshard_t ***reshards;  // [channel][micro + 1]
  events_t *events;                   // by class
  int64_t walker_count;
  walker_t *walkers;
  int32_t *walker_of;  // by rank; -1: not walked
  mailbox_t *boxes;    // [from * walker_count + to]
} comm_t;

// ---- events -------------------------------------------------------------------------

// The micro-batch whose transfers stand for those of `micro`.
static int64_t representative(const comm_t *c, const shoal_channel_t *channel, int64_t micro) {
  if (!shoal_program_has_micro(channel->src) && !shoal_program_has_micro(channel->dst)) return -1;
  if (c->program->micro <= MANY_MICROS || micro < 2 || micro == c->program->micro - 1) return micro;
  if (shoal_layout_uneven(channel->src, SHOAL_AXIS_MICRO)) return micro;
  if (shoal_layout_uneven(channel->dst, SHOAL_AXIS_MICRO)) return micro;
  return 1;
}

static shoal_status_t find_reshard(comm_t *c, int32_t index, int64_t micro,
                                   const shoal_reshard_t **out_reshard) {
  const shoal_channel_t *channel = &c->program->channels[index];
  micro = representative(c, channel, micro);
  if (!c->reshards[index]) {
    c->reshards[index] = SHOAL_NEW(c->keep, const shoal_reshard_t *, c->program->micro + 1);
    if (!c->reshards[index]) return SHOAL_OOM();
  }
  const shoal_reshard_t **entry = &c->reshards[index][micro + 1];
  if (!*entry) {
    shoal_reshard_t *made = SHOAL_NEW(c->keep, shoal_reshard_t, 1);
    if (!made) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_channel_reshard(channel, micro, c->keep, made));
    *entry = made;
  }
  *out_reshard = *entry;
  return NULL;
}

static place_t place_of(const comm_t *c, int64_t class, const event_t *event) {
  return (place_t){.program = c->program,
                   .class = class,
                   .segment = event->segment,
                   .instruction = event->instruction,
                   .graph = c->graph,
                   .micro = event->micro};
}

static shoal_status_t list_events(comm_t *c, int64_t index) {
  const shoal_class_t *class = &c->program->classes[index];
  const shoal_order_t *order = NULL;
  for (int64_t i = 0; i < class->order_count; ++i) {
    if (strcmp(class->orders[i].graph, c->graph) == 0) order = &class->orders[i];
  }
  for (int64_t k = 0; order && k < order->call_count; ++k) {
    const shoal_segment_call_t *call = &order->calls[k];
    const shoal_segment_t *segment = &class->segments[call->segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (in->opcode != SHOAL_OPCODE_RESHARD) continue;
      event_t event = {call->segment, (int32_t)i, call->micro, in->channel, NULL};
      shoal_status_t status = find_reshard(c, in->channel, call->micro, &event.reshard);
      if (status) {
        place_t place = place_of(c, index, &event);
        return shoal_program_check_at(&place, status);
      }
      if (event.reshard->kind == SHOAL_RESHARD_NONE || event.reshard->kind == SHOAL_RESHARD_SLICE) {
        continue;  // nobody sends anything
      }
      if (!SHOAL_PUSH(c->arena, &c->events[index], event)) return SHOAL_OOM();
    }
  }
  return NULL;
}

// ---- who is walked ------------------------------------------------------------------

static shoal_status_t add_walker(comm_t *c, int32_t rank, int64_t class) {
  if (c->walker_of[rank] >= 0 || c->walker_count == MAX_WALKED) return NULL;
  int64_t most = 0;
  for (int64_t i = 0; i < c->events[class].count; ++i) {
    int64_t count = c->events[class].items[i].reshard->transfer_count;
    most = count > most ? count : most;
  }
  bool *taken = SHOAL_NEW(c->arena, bool, most);
  if (!taken) return SHOAL_OOM();
  c->walker_of[rank] = (int32_t)c->walker_count;
  c->walkers[c->walker_count++] =
      (walker_t){.rank = rank, .class = class, .taken = taken, .waiting = -1};
  return NULL;
}

static int64_t class_of(const comm_t *c, int32_t rank) {
  const shoal_class_t *class = shoal_program_class_of(c->program, rank);
  return class - c->program->classes;
}

// The ranks that exchange anything with `rank`.
static shoal_status_t add_peers(comm_t *c, int32_t rank, int64_t class) {
  for (int64_t i = 0; i < c->events[class].count; ++i) {
    const event_t *event = &c->events[class].items[i];
    const shoal_channel_t *channel = &c->program->channels[event->channel];
    for (int64_t t = 0; t < event->reshard->transfer_count; ++t) {
      int32_t peer;
      if (shoal_reshard_share(channel, &event->reshard->transfers[t], rank, &peer) !=
          SHOAL_SHARE_NONE) {
        SHOAL_RETURN_IF_ERROR(add_walker(c, peer, class_of(c, peer)));
      }
    }
  }
  return NULL;
}

static shoal_status_t choose_walkers(comm_t *c) {
  const shoal_program_t *program = c->program;
  for (int32_t i = 0; i < program->world; ++i) c->walker_of[i] = -1;
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *class = &program->classes[k];
    int64_t some = program->world <= MAX_RANKS ? class->rank_count : class->rank_count > 0;
    for (int64_t i = 0; i < some; ++i) SHOAL_RETURN_IF_ERROR(add_walker(c, class->ranks[i], k));
  }
  for (int64_t k = 0; k < program->class_count && program->world > MAX_RANKS; ++k) {
    if (program->classes[k].rank_count == 0) continue;
    SHOAL_RETURN_IF_ERROR(add_peers(c, program->classes[k].ranks[0], k));
  }
  c->boxes = SHOAL_NEW(c->arena, mailbox_t, c->walker_count * c->walker_count);
  return c->boxes ? NULL : SHOAL_OOM();
}

static const event_t *event_of(const comm_t *c, const walker_t *walker) {
  const events_t *events = &c->events[walker->class];
  return walker->at < events->count ? &events->items[walker->at] : NULL;
}

static mailbox_t *box(comm_t *c, int64_t from, int64_t to) {
  return &c->boxes[from * c->walker_count + to];
}

// ---- what is said -------------------------------------------------------------------

static void describe(const comm_t *c, int64_t class, const event_t *event, char *buffer,
                     size_t size) {
  place_t place = place_of(c, class, event);
  place.graph = NULL;
  shoal_program_check_where(&place, buffer, size);
}

static shoal_status_t wrong_message(const comm_t *c, const walker_t *from, const walker_t *to,
                                    const message_t *message, int64_t expected) {
  char sender[400];
  const event_t *event = event_of(c, to), *other = message->event;
  describe(c, from->class, other, sender, sizeof sender);
  place_t place = place_of(c, to->class, event);
  return MISMATCH(
      &place, "run the same reshards in the same order on both sides",
      "rank %d expects %lld elements of channel %d from rank %d, whose next message is %lld "
      "elements of channel %d, sent in %s",
      to->rank, (long long)expected, event->channel, from->rank, (long long)message->count,
      other->channel, sender);
}

static shoal_status_t stuck(const comm_t *c, const walker_t *walker) {
  char there[400] = "has nothing left to do";
  place_t place = place_of(c, walker->class, event_of(c, walker));
  const walker_t *other = walker->waiting >= 0 ? &c->walkers[walker->waiting] : walker;
  const event_t *event = event_of(c, other);
  if (event) {
    memcpy(there, "is in ", 7);
    describe(c, other->class, event, there + 6, sizeof there - 6);
  }
  return MISMATCH(&place, "run the same reshards in the same order on both sides",
                  "deadlock: rank %d waits here for rank %d, which %s", walker->rank, other->rank,
                  there);
}

// ---- walking ------------------------------------------------------------------------

static shoal_status_t post(comm_t *c, int64_t self, const event_t *event) {
  walker_t *walker = &c->walkers[self];
  const shoal_channel_t *channel = &c->program->channels[event->channel];
  for (int64_t t = 0; t < event->reshard->transfer_count; ++t) {
    const shoal_transfer_t *transfer = &event->reshard->transfers[t];
    int32_t peer;
    walker->taken[t] = false;
    if (shoal_reshard_share(channel, transfer, walker->rank, &peer) != SHOAL_SHARE_SEND) continue;
    if (c->walker_of[peer] < 0) continue;
    message_t message = {event, transfer->count};
    if (!SHOAL_PUSH(c->arena, &box(c, self, c->walker_of[peer])->sent, message)) return SHOAL_OOM();
  }
  walker->posted = true;
  return NULL;
}

// Takes what has come, and tells whether the event is over.
static shoal_status_t exchange(comm_t *c, int64_t self, const event_t *event, bool *out_done) {
  walker_t *walker = &c->walkers[self];
  const shoal_channel_t *channel = &c->program->channels[event->channel];
  bool receives = false, done = true;
  if (!walker->posted) SHOAL_RETURN_IF_ERROR(post(c, self, event));
  for (int64_t t = 0; t < event->reshard->transfer_count; ++t) {
    const shoal_transfer_t *transfer = &event->reshard->transfers[t];
    int32_t peer;
    if (shoal_reshard_share(channel, transfer, walker->rank, &peer) != SHOAL_SHARE_RECV) continue;
    receives = true;
    int32_t from = c->walker_of[peer];
    if (walker->taken[t] || from < 0) continue;
    mailbox_t *mail = box(c, from, self);
    if (mail->taken == mail->sent.count) {
      if (done) walker->waiting = from;
      done = false;
      continue;
    }
    const message_t *message = &mail->sent.items[mail->taken];
    if (message->event->channel != event->channel || message->event->micro != event->micro ||
        message->count != transfer->count) {
      return wrong_message(c, &c->walkers[from], walker, message, transfer->count);
    }
    ++mail->taken;
    walker->taken[t] = true;
  }
  for (int64_t t = 0; receives && done && t < event->reshard->transfer_count; ++t) {
    int32_t peer;
    if (shoal_reshard_share(channel, &event->reshard->transfers[t], walker->rank, &peer) !=
            SHOAL_SHARE_SEND ||
        c->walker_of[peer] < 0) {
      continue;
    }
    const mailbox_t *mail = box(c, self, c->walker_of[peer]);
    if (mail->taken == mail->sent.count) continue;
    done = false;
    walker->waiting = c->walker_of[peer];
  }
  *out_done = done;
  return NULL;
}

static void go_on(walker_t *walker) {
  ++walker->at;
  walker->posted = false;
  walker->waiting = -1;
}

// When the whole group has come, all of it goes on.
static bool meet(comm_t *c, int64_t self, const event_t *event) {
  walker_t *walker = &c->walkers[self];
  const shoal_channel_t *channel = &c->program->channels[event->channel];
  int64_t position = shoal_mesh_position(channel->dst->mesh, walker->rank);
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t t = 0; t < event->reshard->transfer_count; ++t) {
      const shoal_transfer_t *transfer = &event->reshard->transfers[t];
      if (transfer->dst != position) continue;
      int32_t member = c->walker_of[shoal_mesh_rank(channel->src->mesh, transfer->src)];
      if (member < 0 || member == self) continue;
      if (pass == 1) {
        go_on(&c->walkers[member]);
        continue;
      }
      const event_t *other = event_of(c, &c->walkers[member]);
      if (other && other->channel == event->channel && other->micro == event->micro) continue;
      walker->waiting = member;
      return false;
    }
  }
  go_on(walker);
  return true;
}

static shoal_status_t walk(comm_t *c) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t i = 0; i < c->walker_count; ++i) {
      walker_t *walker = &c->walkers[i];
      for (const event_t *event; (event = event_of(c, walker));) {
        bool done = false;
        if (event->reshard->collective) {
          done = meet(c, i, event);
        } else {
          bool before = walker->posted;
          SHOAL_RETURN_IF_ERROR(exchange(c, i, event, &done));
          moved |= !before;
          if (done) go_on(walker);
        }
        moved |= done;
        if (!done) break;
      }
    }
  }
  for (int64_t i = 0; i < c->walker_count; ++i) {
    if (event_of(c, &c->walkers[i])) return stuck(c, &c->walkers[i]);
  }
  for (int64_t from = 0; from < c->walker_count; ++from) {
    for (int64_t to = 0; to < c->walker_count; ++to) {
      const mailbox_t *mail = box(c, from, to);
      if (mail->taken == mail->sent.count) continue;
      place_t place = place_of(c, c->walkers[from].class, mail->sent.items[mail->taken].event);
      return MISMATCH(&place, "receive it, or do not send it",
                      "rank %d sends a message to rank %d that is never received",
                      c->walkers[from].rank, c->walkers[to].rank);
    }
  }
  return NULL;
}

static shoal_status_t check_graph(comm_t *c) {
  const shoal_program_t *program = c->program;
  c->events = SHOAL_NEW(c->arena, events_t, program->class_count);
  c->walkers = SHOAL_NEW(c->arena, walker_t, MAX_WALKED);
  c->walker_of = SHOAL_NEW(c->arena, int32_t, program->world);
  if (!c->events || !c->walkers || !c->walker_of) return SHOAL_OOM();
  for (int64_t k = 0; k < program->class_count; ++k) SHOAL_RETURN_IF_ERROR(list_events(c, k));
  SHOAL_RETURN_IF_ERROR(choose_walkers(c));
  return walk(c);
}

shoal_status_t shoal_program_check_comm(const shoal_program_t *program, shoal_arena_t *scratch) {
  const shoal_class_t *first = &program->classes[0];  // every class has orders for the same graphs
  const shoal_reshard_t ***reshards =
      SHOAL_NEW(scratch, const shoal_reshard_t **, program->channel_count);
  if (!reshards) return SHOAL_OOM();
  for (int64_t i = 0; i < first->order_count; ++i) {
    shoal_arena_t arena;
    shoal_arena_init(scratch->allocator, &arena);
    comm_t c = {.program = program,
                .graph = first->orders[i].graph,
                .keep = scratch,
                .arena = &arena,
                .reshards = reshards};
    shoal_status_t status = check_graph(&c);
    shoal_arena_deinit(&arena);
    SHOAL_RETURN_IF_ERROR(status);
  }
  return NULL;
}
