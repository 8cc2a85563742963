// Mutations of orders: calls dropped or swapped, slots and waits that are not the right ones.
#include <string.h>

#include "program/mutate_impl.h"

// ---- calls --------------------------------------------------------------------------

static int64_t *places_of(walk_t *w, int64_t count) {
  int64_t *places = SHOAL_NEW(w->arena, int64_t, count);
  w->failed |= !places;
  for (int64_t k = 0; places && k < count; ++k) places[k] = k;
  return places;
}

static void drop_call(walk_t *w, int64_t index, const shoal_order_t *former, int64_t k) {
  shoal_order_t *mine = shoal_mutate_own_order(w, index);
  int64_t *places = mine ? places_of(w, former->call_count) : NULL;
  if (!places) return;
  memmove(mine->calls + k, mine->calls + k + 1,
          (size_t)(mine->call_count - k - 1) * sizeof *mine->calls);
  --mine->call_count;
  places[k] = -1;
  for (int64_t i = k + 1; i < former->call_count; ++i) --places[i];
  shoal_mutate_move_calls(w, mine, former, places);
}

static void swap_calls(walk_t *w, int64_t index, const shoal_order_t *former, int64_t k) {
  shoal_order_t *mine = shoal_mutate_own_order(w, index);
  int64_t *places = mine ? places_of(w, former->call_count) : NULL;
  if (!places) return;
  mine->calls[k] = former->calls[k + 1];
  mine->calls[k + 1] = former->calls[k];
  places[k] = k + 1;
  places[k + 1] = k;
  shoal_mutate_move_calls(w, mine, former, places);
  w->mutation.first = index;
  w->mutation.second = k;
}

// ---- slots --------------------------------------------------------------------------

static void walk_slots(walk_t *w, int64_t index, int64_t k) {
  const shoal_class_t *class = place_class(&w->place);
  const shoal_order_t *order = &class->orders[index];
  for (int32_t g = 0; g < class->slot_group_count; ++g) {
    const int32_t slots = class->slot_groups[g].slots, slot = order->calls[k].slots[g];
    for (int32_t step = 1; slot >= 0 && step<slots; step += slots - 2> 1 ? slots - 2 : 1) {
      if (!shoal_mutate_due(w, SHOAL_MUTATION_CALL_SLOT,
                            "order '%s': call %lld names slot %d of group %d, not %d", order->graph,
                            (long long)k, (slot + step) % slots, g, slot)) {
        continue;
      }
      shoal_order_t *mine = shoal_mutate_own_order(w, index);
      int32_t *own =
          mine ? shoal_mutate_own(w, mine->calls[k].slots, class->slot_group_count, sizeof *own)
               : NULL;
      if (!own) return;
      own[g] = (slot + step) % slots;
      mine->calls[k].slots = own;
    }
  }
}

// ---- waits --------------------------------------------------------------------------

static shoal_call_wait_t *own_waits(walk_t *w, int64_t index, int64_t k) {
  shoal_order_t *mine = shoal_mutate_own_order(w, index);
  if (!mine) return NULL;
  shoal_call_wait_t *waits =
      shoal_mutate_own(w, mine->calls[k].waits, mine->calls[k].wait_count, sizeof *waits);
  mine->calls[k].waits = waits;
  return waits;
}

static void drop_wait(walk_t *w, int64_t index, int64_t k, int32_t which) {
  shoal_call_wait_t *waits = own_waits(w, index, k);
  if (!waits) return;
  shoal_segment_call_t *call = &shoal_mutate_own_class(w)->orders[index].calls[k];
  memmove(waits + which, waits + which + 1, (size_t)(call->wait_count - which - 1) * sizeof *waits);
  --call->wait_count;
}

// Is that a wait a text may have?
static bool is_wait(const shoal_class_t *class, const shoal_order_t *order, int64_t k,
                    shoal_call_wait_t wait) {
  if (wait.back < 1 || wait.back > shoal_class_period(class) * order->call_count) return false;
  const int32_t segment = shoal_order_back(order, k, wait.back)->segment;
  return wait.other >= 0 && wait.other < class->segments[segment].instruction_count;
}

static void walk_wait(walk_t *w, int64_t index, int64_t k, int32_t which) {
  const shoal_class_t *class = place_class(&w->place);
  const shoal_order_t *order = &class->orders[index];
  const shoal_call_wait_t wait = order->calls[k].waits[which];
  if (shoal_mutate_due(w, SHOAL_MUTATION_CALL_WAIT,
                       "order '%s': call %lld does not wait by %d<%d.%d", order->graph,
                       (long long)k, wait.instruction, wait.back, wait.other)) {
    drop_wait(w, index, k, which);
  }
  for (int change = 0; change < 4; ++change) {
    const bool back = change < 2;
    const int32_t by = change % 2 ? 1 : -1;
    shoal_call_wait_t moved = wait;
    *(back ? &moved.back : &moved.other) += by;
    if (!is_wait(class, order, k, moved)) continue;
    if (!shoal_mutate_due(w, back ? SHOAL_MUTATION_CALL_WAIT_BACK : SHOAL_MUTATION_CALL_WAIT_OTHER,
                          "order '%s': call %lld waits by %d<%d.%d, not %d<%d.%d", order->graph,
                          (long long)k, moved.instruction, moved.back, moved.other,
                          wait.instruction, wait.back, wait.other)) {
      continue;
    }
    shoal_call_wait_t *waits = own_waits(w, index, k);
    if (waits) waits[which] = moved;
  }
}

void shoal_mutate_order(walk_t *w, int64_t index) {
  const shoal_order_t *order = &place_class(&w->place)->orders[index];
  for (int64_t k = 0; k < order->call_count; ++k) {
    if (shoal_mutate_due(w, SHOAL_MUTATION_CALL_DROP, "order '%s': drop call %lld", order->graph,
                         (long long)k)) {
      drop_call(w, index, order, k);
    }
    if (k + 1 < order->call_count &&
        shoal_mutate_due(w, SHOAL_MUTATION_CALL_SWAP, "order '%s': swap calls %lld and %lld",
                         order->graph, (long long)k, (long long)k + 1)) {
      swap_calls(w, index, order, k);
    }
    walk_slots(w, index, k);
    for (int32_t i = 0; i < order->calls[k].wait_count; ++i) walk_wait(w, index, k, i);
  }
}
