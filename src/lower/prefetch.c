// States that rest in parts are gathered ahead of who needs them. The consumers of a segment that
// need gathers are numbered as they come; the gathers of one start when the one so many numbers
// before it does, as the plan says (`prefetch`), so that they run beside what lies in between.
#include <string.h>

#include "base/status.h"
#include "lower/schedule.h"

typedef struct prefetching {
  build_t *b;
  const bool *decided;
  int64_t count;
  item_t **items;
  int32_t *makers;     // by instance: the gather of the segment that makes it; -1: none
  int32_t *consumers;  // by place: of a gather, the first that needs it; -1: no gather
  int32_t *numbers;    // by place: of a consumer; -1: it needs no gather
} prefetching_t;

// The state that an item gathers, at once or in a further step; -1: it does something else.
static int32_t gathered(const prefetching_t *p, const item_t *item) {
  if (item->code.opcode != SHOAL_OPCODE_RESHARD || item->segment != item->send_segment) return -1;
  const int32_t from = item->code.inputs[0];
  const instance_t *source = instance_at(p->b, from);
  if (source->layout->mesh != instance_at(p->b, item->code.outputs[0])->layout->mesh) return -1;
  if (source->kind == SHOAL_BUFFER_STATE) return p->decided[source->state] ? source->state : -1;
  return p->makers[from] >= 0 ? gathered(p, p->items[p->makers[from]]) : -1;
}

// Whose gathers stand in front of whom. A step on the way to another is needed when that is.
static void find_consumers(const prefetching_t *p) {
  for (int32_t i = 0; i < p->count; ++i) {
    p->consumers[i] = p->numbers[i] = -1;
    if (gathered(p, p->items[i]) >= 0) p->makers[p->items[i]->code.outputs[0]] = i;
  }
  for (int32_t i = (int32_t)p->count - 1; i >= 0; --i) {
    const item_t *item = p->items[i];
    const bool gathers = gathered(p, item) >= 0;
    for (int32_t k = 0; k < item->code.input_count; ++k) {
      const int32_t maker = p->makers[item->code.inputs[k]];
      if (maker >= 0) p->consumers[maker] = gathers ? p->consumers[i] : i;
    }
  }
}

// Numbers the consumers; needy[number] is one.
static int32_t number_consumers(const prefetching_t *p, int32_t *needy) {
  int32_t count = 0;
  for (int64_t i = 0; i < p->count; ++i)
    if (p->consumers[i] >= 0) p->numbers[p->consumers[i]] = 0;
  for (int32_t i = 0; i < p->count; ++i)
    if (p->numbers[i] >= 0) p->numbers[i] = count, needy[count++] = i;
  return count;
}

// Where a gather goes: in front of the item at that place, at the latest where it is.
static int32_t place_of(const prefetching_t *p, const int32_t *needy, int32_t at, int32_t ahead) {
  const int32_t number = p->numbers[p->consumers[at]] - ahead;
  if (number < 0) return 0;
  return needy[number] < at ? needy[number] : at;
}

// The gathers in front of each item, a list.
typedef struct place {
  int32_t first, last;  // -1: none
} place_t;

static shoal_status_t move_gathers(const prefetching_t *p, shoal_arena_t *scratch) {
  int32_t *needy = SHOAL_NEW(scratch, int32_t, p->count);
  int32_t *next = SHOAL_NEW(scratch, int32_t, p->count);
  place_t *places = SHOAL_NEW(scratch, place_t, p->count);
  item_t **out = SHOAL_NEW(scratch, item_t *, p->count);
  int64_t count = 0;
  if (!needy || !next || !places || !out) return SHOAL_OOM();
  if (number_consumers(p, needy) == 0) return NULL;
  for (int64_t i = 0; i < p->count; ++i) places[i] = (place_t){-1, -1}, next[i] = -1;
  for (int32_t i = 0; i < p->count; ++i) {
    if (p->consumers[i] < 0) continue;
    const int32_t ahead = p->b->plan->syncs[gathered(p, p->items[i])].prefetch;
    place_t *place = &places[place_of(p, needy, i, ahead)];
    if (place->last >= 0)
      next[place->last] = i;
    else
      place->first = i;
    place->last = i;
    p->items[i]->why = shoal_arena_printf(p->b->arena, "%d consumers ahead", ahead);
    if (!p->items[i]->why) return SHOAL_OOM();
  }
  for (int32_t i = 0; i < p->count; ++i) {
    for (int32_t k = places[i].first; k >= 0; k = next[k]) out[count++] = p->items[k];
    if (p->consumers[i] < 0) out[count++] = p->items[i];
  }
  memcpy(p->items, out, (size_t)count * sizeof *out);
  return NULL;
}

shoal_status_t shoal_lower_prefetch(build_t *b, const bool *decided, int64_t count, item_t **items,
                                    int32_t *makers, shoal_arena_t *scratch) {
  const prefetching_t p = {.b = b,
                           .decided = decided,
                           .count = count,
                           .items = items,
                           .makers = makers,
                           .consumers = SHOAL_NEW(scratch, int32_t, count),
                           .numbers = SHOAL_NEW(scratch, int32_t, count)};
  if (!p.consumers || !p.numbers) return SHOAL_OOM();
  find_consumers(&p);
  SHOAL_RETURN_IF_ERROR(move_gathers(&p, scratch));
  for (int64_t i = 0; i < count; ++i)
    for (int32_t k = 0; k < items[i]->code.output_count; ++k)
      makers[items[i]->code.outputs[k]] = -1;
  return NULL;
}
