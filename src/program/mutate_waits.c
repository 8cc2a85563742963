// Waits that follow what is moved: where instructions or calls change places, those who waited for
// them still do, as far as that is possible, so that a mutation changes nothing else. What waited
// for a dropped instruction waits for what that one waited for and came behind.
#include "program/mutate_impl.h"

typedef SHOAL_VEC(int32_t) list_t;
typedef SHOAL_VEC(shoal_call_wait_t) call_list_t;

bool shoal_mutate_stay(walk_t *w, const shoal_segment_t *former, mutate_moves_t *out_moves) {
  const int64_t count = former->instruction_count;
  *out_moves = (mutate_moves_t){.former = former,
                                .source = SHOAL_NEW(w->arena, int32_t, count),
                                .target = SHOAL_NEW(w->arena, int32_t, count)};
  w->failed |= !out_moves->source || !out_moves->target;
  for (int64_t i = 0; !w->failed && i < count; ++i) {
    out_moves->source[i] = out_moves->target[i] = (int32_t)i;
  }
  return !w->failed;
}

// The one before on its queue; -1: none.
static int32_t find_before(const shoal_segment_t *segment, int32_t index) {
  int32_t before = index - 1;
  while (before >= 0 && segment->instructions[before].queue != segment->instructions[index].queue) {
    --before;
  }
  return before;
}

// ---- inside the segment -------------------------------------------------------------

static void add_wait(walk_t *w, const shoal_segment_t *segment, int64_t index, int32_t other,
                     list_t *waits) {
  if (other < 0 || other >= index) return;
  if (segment->instructions[other].queue == segment->instructions[index].queue) return;
  for (int64_t i = 0; i < waits->count; ++i) {
    if (waits->items[i] == other) return;
  }
  if (!SHOAL_PUSH(w->arena, waits, other)) w->failed = true;
}

static void move_own_waits(walk_t *w, shoal_segment_t *segment, const mutate_moves_t *moves) {
  const shoal_segment_t *former = moves->former;
  list_t *lists = shoal_arena_alloc(w->arena, (size_t)segment->instruction_count, sizeof *lists);
  w->failed |= !lists;
  for (int64_t f = 0; lists && f < former->instruction_count; ++f) {
    const shoal_instruction_t *in = &former->instructions[f];
    const int32_t source = moves->source[f];
    for (int32_t k = 0; source >= 0 && k < in->wait_count; ++k) {
      const int32_t old = in->waits[k];
      if (moves->target[old] >= 0) {
        add_wait(w, segment, source, moves->target[old], &lists[source]);
        continue;
      }
      const shoal_instruction_t *gone = &former->instructions[old];
      const int32_t before = find_before(former, old);
      for (int32_t j = 0; j < gone->wait_count; ++j) {
        add_wait(w, segment, source, moves->target[gone->waits[j]], &lists[source]);
      }
      if (before >= 0) add_wait(w, segment, source, moves->target[before], &lists[source]);
    }
  }
  for (int64_t i = 0; lists && i < segment->instruction_count; ++i) {
    segment->instructions[i].waits = lists[i].items;
    segment->instructions[i].wait_count = (int32_t)lists[i].count;
  }
}

// ---- from and to calls --------------------------------------------------------------

// An order whose calls' waits are written anew.
typedef struct rewrite {
  walk_t *w;
  const shoal_class_t *class;  // the mutated one
  const shoal_order_t *order;  // of it
  int64_t call;                // the present one
  call_list_t waits;           // its
} rewrite_t;

static int32_t queue_of(const rewrite_t *r, int64_t back, int32_t instruction) {
  const int32_t segment = shoal_order_back(r->order, r->call, back)->segment;
  return r->class->segments[segment].instructions[instruction].queue;
}

static void add_call_wait(rewrite_t *r, shoal_call_wait_t wait) {
  const int64_t farthest = shoal_class_period(r->class) * r->order->call_count;
  while (wait.back > farthest) wait.back -= (int32_t)r->order->call_count;
  if (wait.instruction < 0 || wait.other < 0 || wait.back < 1) return;
  if (queue_of(r, 0, wait.instruction) == queue_of(r, wait.back, wait.other)) return;
  for (int64_t i = 0; i < r->waits.count; ++i) {
    const shoal_call_wait_t *other = &r->waits.items[i];
    if (other->instruction == wait.instruction && other->back == wait.back &&
        other->other == wait.other) {
      return;
    }
  }
  if (!SHOAL_PUSH(r->w->arena, &r->waits, wait)) r->w->failed = true;
}

// A wait whose `other` may have moved.
static void add_moved(rewrite_t *r, const mutate_moves_t *moves, int32_t segment,
                      shoal_call_wait_t wait) {
  const shoal_segment_call_t *there = shoal_order_back(r->order, r->call, wait.back);
  if (there->segment != segment) {
    add_call_wait(r, wait);
    return;
  }
  const int32_t old = wait.other;
  wait.other = moves->target[old];
  add_call_wait(r, wait);
  if (wait.other >= 0) return;
  const shoal_instruction_t *gone = &moves->former->instructions[old];
  const int32_t before = find_before(moves->former, old);
  wait.other = before >= 0 ? moves->target[before] : -1;
  add_call_wait(r, wait);
  for (int32_t j = 0; j < gone->wait_count; ++j) {
    wait.other = moves->target[gone->waits[j]];
    add_call_wait(r, wait);
  }
  for (int32_t j = 0; j < there->wait_count; ++j) {
    const shoal_call_wait_t *next = &there->waits[j];
    if (next->instruction != old) continue;
    const int64_t back = (int64_t)wait.back + next->back;
    const bool same = shoal_order_back(r->order, r->call, back)->segment == segment;
    add_call_wait(r, (shoal_call_wait_t){wait.instruction, (int32_t)back,
                                         same ? moves->target[next->other] : next->other});
  }
}

static void move_call_waits(rewrite_t *r, const mutate_moves_t *moves, int32_t segment) {
  const shoal_segment_call_t *call = &r->order->calls[r->call];
  for (int32_t i = 0; i < call->wait_count; ++i) {
    shoal_call_wait_t wait = call->waits[i];
    const int32_t old = wait.instruction;
    if (call->segment != segment) {
      add_moved(r, moves, segment, wait);
      continue;
    }
    wait.instruction = moves->source[old];
    if (wait.instruction >= 0) add_moved(r, moves, segment, wait);
    // Who waited for a dropped instruction waits for what that one waited for.
    for (int64_t f = old + 1; moves->target[old] < 0 && f < moves->former->instruction_count; ++f) {
      const shoal_instruction_t *in = &moves->former->instructions[f];
      for (int32_t k = 0; k < in->wait_count; ++k) {
        if (in->waits[k] != old) continue;
        wait.instruction = moves->source[f];
        add_moved(r, moves, segment, wait);
      }
    }
  }
}

void shoal_mutate_move_waits(walk_t *w, shoal_segment_t *segment, const mutate_moves_t *moves) {
  move_own_waits(w, segment, moves);
  const shoal_class_t *class = place_class(&w->place);
  for (int64_t o = 0; o < class->order_count && !w->failed; ++o) {
    const shoal_order_t *former = &class->orders[o];
    shoal_order_t *order = shoal_mutate_own_order(w, o);
    for (int64_t k = 0; order && k < order->call_count; ++k) {
      rewrite_t r = {.w = w, .class = shoal_mutate_own_class(w), .order = former, .call = k};
      move_call_waits(&r, moves, (int32_t)w->place.segment);
      order->calls[k].waits = r.waits.items;
      order->calls[k].wait_count = (int32_t)r.waits.count;
    }
  }
}

// ---- calls --------------------------------------------------------------------------

void shoal_mutate_move_calls(walk_t *w, shoal_order_t *order, const shoal_order_t *former,
                             const int64_t *places) {
  const int64_t count = former->call_count;
  for (int64_t k = 0; k < count; ++k) {
    if (places[k] < 0) continue;
    rewrite_t r = {.w = w, .class = shoal_mutate_own_class(w), .order = order, .call = places[k]};
    for (int32_t i = 0; i < former->calls[k].wait_count; ++i) {
      shoal_call_wait_t wait = former->calls[k].waits[i];
      const int64_t there = (k - wait.back % count + count) % count;
      const int64_t steps = (wait.back - k + there) / count;
      if (places[there] < 0) continue;
      wait.back = (int32_t)(places[k] - places[there] + steps * order->call_count);
      add_call_wait(&r, wait);
    }
    order->calls[places[k]].waits = r.waits.items;
    order->calls[places[k]].wait_count = (int32_t)r.waits.count;
  }
}
