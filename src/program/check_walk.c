// Walking the queues of all classes through one step of a graph. An instruction runs when the one
// before it on its queue, and those it waits for, are done; a reshard needs its meeting, too.
// What can run runs, until all has or nothing can. Which one is taken first makes no difference:
// what can run stays able to. Waits reach backwards only, so the earliest instruction that a class
// is stuck at is always a reshard that waits for another class, and that is what is named.
//
// A step needs nothing of later ones, and finds the earlier ones done in the end: so one step
// stands for all. Classes are woken when a meeting they take part in is complete: the cost is that
// of their instructions, once, and of the meetings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/check_comm.h"

// ---- lists --------------------------------------------------------------------------

static int compare_waits(const void *a, const void *b) {
  const shoal_call_wait_t *x = a, *y = b;
  return (x->instruction > y->instruction) - (x->instruction < y->instruction);
}

static shoal_status_t sort_waits(const shoal_segment_call_t *call, shoal_arena_t *arena,
                                 const shoal_call_wait_t **out_waits) {
  bool sorted = true;
  for (int32_t i = 1; i < call->wait_count; ++i) {
    sorted &= call->waits[i - 1].instruction <= call->waits[i].instruction;
  }
  *out_waits = call->waits;
  if (sorted) return NULL;
  shoal_call_wait_t *own =
      shoal_arena_copy(arena, call->waits, (size_t)call->wait_count, sizeof *own);
  if (!own) return SHOAL_OOM();
  qsort(own, (size_t)call->wait_count, sizeof *own, compare_waits);
  *out_waits = own;
  return NULL;
}

static shoal_status_t list_segment(walker_t *w, int32_t index, shoal_arena_t *arena) {
  const shoal_segment_t *segment = &w->class->segments[index];
  queue_list_t *lists = &w->lists[(int64_t)index * w->class->queue_count];
  int32_t *items = SHOAL_NEW(arena, int32_t, segment->instruction_count);
  int32_t *ranks = SHOAL_NEW(arena, int32_t, segment->instruction_count);
  if (!items || !ranks) return SHOAL_OOM();
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    ranks[i] = (int32_t)lists[segment->instructions[i].queue].count++;
  }
  for (int32_t q = 0; q < w->class->queue_count; ++q) {
    lists[q].items = items;
    items += lists[q].count;
  }
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    lists[segment->instructions[i].queue].items[ranks[i]] = (int32_t)i;
  }
  w->ranks[index] = ranks;
  return NULL;
}

static const queue_list_t *list_of(const walker_t *w, int64_t call, int32_t queue) {
  return &w->lists[(int64_t)w->order->calls[call].segment * w->class->queue_count + queue];
}

static shoal_status_t prepare(walker_t *w, shoal_arena_t *arena) {
  if (!w->order) return NULL;
  const int32_t queues = w->class->queue_count;
  w->lists = SHOAL_NEW(arena, queue_list_t, w->class->segment_count * queues);
  w->ranks = SHOAL_NEW(arena, int32_t *, w->class->segment_count);
  w->before = SHOAL_NEW(arena, int64_t, w->order->call_count * queues);
  w->waits = SHOAL_NEW(arena, const shoal_call_wait_t *, w->order->call_count);
  if (!w->lists || !w->ranks || !w->before || !w->waits) return SHOAL_OOM();
  int64_t total[SHOAL_MAX_QUEUES] = {0};
  for (int64_t k = 0; k < w->order->call_count; ++k) {
    const shoal_segment_call_t *call = &w->order->calls[k];
    if (!w->ranks[call->segment]) {
      SHOAL_RETURN_IF_ERROR(list_segment(w, call->segment, arena));
    }
    SHOAL_RETURN_IF_ERROR(sort_waits(call, arena, &w->waits[k]));
    for (int32_t q = 0; q < queues; ++q) {
      w->before[k * queues + q] = total[q];
      total[q] += list_of(w, k, q)->count;
    }
  }
  return NULL;
}

// ---- running ------------------------------------------------------------------------

static const shoal_segment_t *segment_of(const walker_t *w, int64_t call) {
  return &w->class->segments[w->order->calls[call].segment];
}

// The instruction a queue stands before, in call head.call; -1: it has come to the end.
static int32_t head_of(walker_t *w, int32_t queue) {
  queue_head_t *head = &w->heads[queue];
  for (; w->order && head->call < w->order->call_count; ++head->call, head->at = 0) {
    const queue_list_t *list = list_of(w, head->call, queue);
    if (head->at < list->count) return list->items[head->at];
  }
  return -1;
}

static bool is_done(const walker_t *w, int64_t call, int32_t instruction) {
  const int32_t queue = segment_of(w, call)->instructions[instruction].queue;
  const int32_t rank = w->ranks[w->order->calls[call].segment][instruction];
  return w->heads[queue].done > w->before[call * w->class->queue_count + queue] + rank;
}

// Something that the instruction waits for and that is not done.
typedef struct blocker {
  int64_t call;
  int32_t instruction;
} blocker_t;

static bool is_blocked(const walker_t *w, int64_t call, int32_t instruction, blocker_t *out) {
  const shoal_instruction_t *in = &segment_of(w, call)->instructions[instruction];
  for (int32_t i = 0; i < in->wait_count; ++i) {
    if (is_done(w, call, in->waits[i])) continue;
    *out = (blocker_t){call, in->waits[i]};
    return true;
  }
  const shoal_call_wait_t *waits = w->waits[call];
  int32_t low = 0, high = w->order->calls[call].wait_count;
  const int32_t count = high;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (waits[middle].instruction < instruction)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < count && waits[low].instruction == instruction; ++low) {
    const int64_t other = call - waits[low].back;
    if (other < 0 || is_done(w, other, waits[low].other)) continue;  // < 0: of an earlier step
    *out = (blocker_t){other, waits[low].other};
    return true;
  }
  return false;
}

// The classes to walk on, the last first.
typedef struct waking {
  int64_t count;
  int64_t *items;
} waking_t;

static void wake(comm_t *c, int64_t class, waking_t *waking) {
  if (c->walkers[class].awake) return;
  c->walkers[class].awake = true;
  waking->items[waking->count++] = class;
}

// Is the class over with the meeting that it stands before on this queue?
static bool meet(comm_t *c, const shoal_instruction_t *in, int64_t number, queue_head_t *head,
                 waking_t *waking) {
  meeting_t *meeting = &c->meetings[number];
  const bool only_sends = in->outputs[0] < 0;
  bool news = false;
  if (only_sends) {
    ++meeting->sent;
    news = true;
  } else if (!head->arrived) {
    ++meeting->arrived;
    news = head->arrived = true;
  }
  const bool complete = meeting->arrived == meeting->others && meeting->sent == meeting->senders;
  for (int64_t i = 0; news && complete && i < c->members[in->channels[0]].count; ++i) {
    wake(c, c->members[in->channels[0]].items[i], waking);
  }
  return only_sends || complete;
}

// Lets a queue go as far as it can; true: it moved.
static bool run_queue(comm_t *c, walker_t *w, int32_t queue, waking_t *waking) {
  queue_head_t *head = &w->heads[queue];
  bool moved = false;
  blocker_t blocker;
  for (int32_t i; (i = head_of(w, queue)) >= 0; moved = true) {
    const shoal_instruction_t *in = &segment_of(w, head->call)->instructions[i];
    if (is_blocked(w, head->call, i, &blocker)) break;
    if (in->channels && !c->silent[in->channels[0]]) {
      const int32_t micro = w->order->calls[head->call].micro;
      if (!meet(c, in, shoal_comm_meeting(c, in->channels[0], micro), head, waking)) break;
    }
    head->arrived = false;
    ++head->at;
    ++head->done;
  }
  return moved;
}

// ---- what is said -------------------------------------------------------------------

// The event a queue stands before.
static event_t event_at(const comm_t *c, const walker_t *w, int64_t call, int32_t instruction) {
  const shoal_segment_call_t *of = &w->order->calls[call];
  const shoal_instruction_t *in = &segment_of(w, call)->instructions[instruction];
  event_t event = {call, of->segment, instruction, of->micro, -1, -1};
  if (in->channels) {
    event.channel = in->channels[0];
    event.meeting = shoal_comm_meeting(c, event.channel, of->micro);
  }
  return event;
}

// The earliest of the instructions that a class's queues stand before.
static bool find_stuck(comm_t *c, walker_t *w, event_t *out_event) {
  bool found = false;
  for (int32_t q = 0; q < w->class->queue_count; ++q) {
    const int32_t i = head_of(w, q);
    const int64_t call = w->heads[q].call;
    if (i < 0 || (found && (call > out_event->call ||
                            (call == out_event->call && i > out_event->instruction)))) {
      continue;
    }
    *out_event = event_at(c, w, call, i);
    found = true;
  }
  return found;
}

static const event_t *find_event(const walker_t *w, int64_t meeting) {
  for (int64_t i = 0; i < w->events.count; ++i) {
    if (w->events.items[i].meeting == meeting) return &w->events.items[i];
  }
  return NULL;
}

// Where a class is that has not come to `due`: what its queue stands before, and what that waits
// for.
static void describe_late(comm_t *c, int64_t class, const event_t *due, char *buffer,
                          size_t capacity) {
  walker_t *w = &c->walkers[class];
  const int32_t queue = shoal_comm_instruction(c, class, due)->queue;
  const int32_t at = head_of(w, queue);
  snprintf(buffer, capacity, "has nothing left to do");
  if (at < 0) return;
  const event_t event = event_at(c, w, w->heads[queue].call, at);
  place_t place = shoal_comm_place(c, class, &event);
  char where[400];
  place.graph = NULL;
  shoal_program_check_where(&place, where, sizeof where);
  int used = snprintf(buffer, capacity, "is in %s", where);
  blocker_t blocker;
  if (used < 0 || (size_t)used >= capacity || !is_blocked(w, event.call, at, &blocker)) return;
  const shoal_instruction_t *in = &segment_of(w, blocker.call)->instructions[blocker.instruction];
  char call[200];
  snprintf(buffer + used, capacity - (size_t)used, " and waits for instruction %d %s '%s' of %s",
           blocker.instruction, shoal_opcode_name(in->opcode), in->name,
           shoal_program_check_call(w->class, w->order, blocker.call, call, sizeof call));
}

// `class` has come to a meeting; somebody else has not.
static shoal_status_t stuck(comm_t *c, int64_t class, const event_t *event) {
  const place_t place = shoal_comm_place(c, class, event);
  int64_t missing = class;
  const event_t *due = event;
  for (int64_t i = 0; i < c->members[event->channel].count; ++i) {
    const int64_t other = c->members[event->channel].items[i];
    walker_t *w = &c->walkers[other];
    const event_t *theirs = find_event(w, event->meeting);
    if (other == class || !theirs || is_done(w, theirs->call, theirs->instruction)) continue;
    const int32_t queue = shoal_comm_instruction(c, other, theirs)->queue;
    if (head_of(w, queue) == theirs->instruction && w->heads[queue].call == theirs->call &&
        w->heads[queue].arrived) {
      continue;
    }
    missing = other;
    due = theirs;
    break;
  }
  char there[700];
  describe_late(c, missing, due, there, sizeof there);
  return MISMATCH(&place, "run the same reshards in the same order on both sides",
                  "deadlock: rank %d waits here for rank %d, which %s",
                  shoal_comm_rank(c, class, event), shoal_comm_rank(c, missing, event), there);
}

// ---- public -------------------------------------------------------------------------

shoal_status_t shoal_comm_walk(comm_t *c) {
  const int64_t count = c->program->class_count;
  waking_t waking = {.items = SHOAL_NEW(c->arena, int64_t, count)};
  if (!waking.items) return SHOAL_OOM();
  for (int64_t k = 0; k < count; ++k) {
    SHOAL_RETURN_IF_ERROR(prepare(&c->walkers[k], c->arena));
  }
  for (int64_t k = count - 1; k >= 0; --k) wake(c, k, &waking);
  while (waking.count > 0) {
    walker_t *w = &c->walkers[waking.items[--waking.count]];
    w->awake = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (int32_t q = 0; q < w->class->queue_count; ++q) moved |= run_queue(c, w, q, &waking);
    }
  }
  for (int64_t k = 0; k < count; ++k) {
    event_t event;
    if (find_stuck(c, &c->walkers[k], &event)) return stuck(c, k, &event);
  }
  return NULL;
}

// Meetings in which several classes receive need all of them at once. A host that enqueues them one
// by one may hold the others up (NCCL's kernels take the device in the order of their launch), so
// they must come in one order even where queues would sort it out. The walk is the same, with one
// queue per class and these meetings alone.
shoal_status_t shoal_comm_host_order(comm_t *c) {
  const int64_t count = c->program->class_count;
  int64_t *at = SHOAL_NEW(c->arena, int64_t, count);
  bool *here = SHOAL_NEW(c->arena, bool, count);
  waking_t waking = {.items = SHOAL_NEW(c->arena, int64_t, count)};
  if (!at || !here || !waking.items) return SHOAL_OOM();
  for (int64_t i = 0; i < c->meeting_count; ++i) c->meetings[i].arrived = 0;
  for (int64_t k = count - 1; k >= 0; --k) wake(c, k, &waking);
  while (waking.count > 0) {
    const int64_t k = waking.items[--waking.count];
    walker_t *w = &c->walkers[k];
    w->awake = false;
    for (; at[k] < w->events.count; ++at[k], here[k] = false) {
      const event_t *event = &w->events.items[at[k]];
      meeting_t *meeting = &c->meetings[event->meeting];
      if (meeting->others < 2 || shoal_comm_instruction(c, k, event)->outputs[0] < 0) continue;
      if (!here[k] && ++meeting->arrived == meeting->others) {
        for (int64_t i = 0; i < c->members[event->channel].count; ++i) {
          wake(c, c->members[event->channel].items[i], &waking);
        }
      }
      here[k] = true;
      if (meeting->arrived < meeting->others) break;
    }
  }
  for (int64_t k = 0; k < count; ++k) {
    const walker_t *w = &c->walkers[k];
    if (at[k] == w->events.count) continue;
    const event_t *event = &w->events.items[at[k]];
    for (int64_t i = 0; i < c->members[event->channel].count; ++i) {
      const int64_t other = c->members[event->channel].items[i];
      const walker_t *late = &c->walkers[other];
      if (at[other] == late->events.count) continue;
      const event_t *theirs = &late->events.items[at[other]];
      if (theirs->meeting == event->meeting) continue;
      const event_t *due = find_event(late, event->meeting);
      if (!due || shoal_comm_instruction(c, other, due)->outputs[0] < 0) continue;
      const place_t place = shoal_comm_place(c, k, event);
      place_t there = shoal_comm_place(c, other, theirs);
      char where[400];
      there.graph = NULL;
      shoal_program_check_where(&there, where, sizeof where);
      return MISMATCH(&place, "call them in the same order on all ranks that meet",
                      "rank %d and rank %d meet here, but the latter enqueues %s before it, and "
                      "those who meet there wait for this",
                      shoal_comm_rank(c, k, event), shoal_comm_rank(c, other, event), where);
    }
  }
  return NULL;
}
