// Segments seen from outside, and the pieces of the arena that they touch: see pieces.h.
#include "lower/pieces.h"

#include "base/edges.h"
#include "base/status.h"
#include "lower/time.h"
#include "program/bind.h"

// ---- views ----------------------------------------------------------------------------

typedef struct viewer {
  pieces_t *p;
  view_t *view;
  int32_t *of_buffer;  // item of a buffer in the present segment; -1: none
} viewer_t;

static shoal_status_t item_of(viewer_t *v, const shoal_instruction_t *in, int32_t buffer,
                              int32_t *out_item) {
  *out_item = buffer >= 0 ? v->of_buffer[buffer] : -1;
  if (*out_item >= 0) return NULL;
  item_t item = {.buffer = buffer, .writer = -1};
  if (buffer < 0) item.offset = in->workspace_offset, item.bytes = in->workspace;
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) item.readers[q] = -1;
  *out_item = (int32_t)v->view->items.count;
  if (buffer >= 0) v->of_buffer[buffer] = *out_item;
  return SHOAL_PUSH(v->p->arena, &v->view->items, item) ? NULL : SHOAL_OOM();
}

static shoal_status_t view_access(viewer_t *v, int32_t index, const shoal_instruction_t *in,
                                  shoal_access_t access) {
  const uint32_t queue = UINT32_C(1) << in->queue;
  int32_t number = -1;
  SHOAL_RETURN_IF_ERROR(item_of(v, in, access.buffer, &number));
  item_t *item = &v->view->items.items[number];
  if (access.write ? item->entered != UINT32_MAX : !(item->entered & queue)) {
    const entry_t entry = {index, number, access.write};
    if (!SHOAL_PUSH(v->p->arena, &v->view->entries, entry)) return SHOAL_OOM();
    item->entered = access.write ? UINT32_MAX : item->entered | queue;
  }
  item->queues |= queue;
  if (access.write) {
    item->writer = index;
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) item->readers[q] = -1;
  } else if (item->writer != index) {
    item->readers[in->queue] = index;
  }
  return NULL;
}

static shoal_status_t view_segment(viewer_t *v, const shoal_segment_t *segment) {
  for (int32_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    shoal_access_t access;
    for (int32_t k = 0; k < shoal_access_count(in); ++k)
      if (shoal_access_at(v->p->c, in, k, &access))
        SHOAL_RETURN_IF_ERROR(view_access(v, i, in, access));
  }
  for (int64_t i = 0; i < v->view->items.count; ++i) {
    const int32_t buffer = v->view->items.items[i].buffer;
    if (buffer >= 0) v->of_buffer[buffer] = -1;
  }
  return NULL;
}

static shoal_status_t view_segments(pieces_t *p, const shoal_order_t *order) {
  viewer_t v = {.p = p};
  p->views = SHOAL_NEW(p->arena, view_t, p->c->segment_count);
  v.of_buffer = SHOAL_NEW(p->arena, int32_t, p->c->buffer_count);
  if (!p->views || !v.of_buffer) return SHOAL_OOM();
  for (int64_t i = 0; i < p->c->buffer_count; ++i) v.of_buffer[i] = -1;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const int32_t segment = order->calls[k].segment;
    v.view = &p->views[segment];
    if (v.view->known) continue;
    v.view->known = true;
    SHOAL_RETURN_IF_ERROR(view_segment(&v, &p->c->segments[segment]));
  }
  return NULL;
}

// ---- the arena ------------------------------------------------------------------------

// Cuts it at every edge of a workspace or a buffer's slot.
static shoal_status_t cut_arena(pieces_t *p) {
  SHOAL_VEC(int64_t) bounds = {0};
  for (int64_t s = 0; s < p->c->segment_count; ++s) {
    for (int64_t i = 0; i < p->views[s].items.count; ++i) {
      const item_t *item = &p->views[s].items.items[i];
      const shoal_buffer_t *buffer = item->buffer < 0 ? NULL : &p->c->buffers[item->buffer];
      const int64_t start =
          buffer ? shoal_class_arena_start(p->c, buffer->memory) + buffer->offset : item->offset;
      const int64_t bytes = buffer ? buffer->bytes : item->bytes;
      if (buffer && p->ranges[item->buffer]) continue;
      const int32_t slots = buffer ? shoal_buffer_slots(p->c, buffer) : 1;
      if (buffer && !(p->ranges[item->buffer] = SHOAL_NEW(p->arena, range_t, slots)))
        return SHOAL_OOM();
      for (int32_t slot = 0; slot <= slots; ++slot)
        if (!SHOAL_PUSH(p->arena, &bounds, start + slot * bytes)) return SHOAL_OOM();
    }
  }
  p->bound_count = shoal_edges_sort(bounds.items, bounds.count);
  p->bounds = bounds.items;
  return NULL;
}

static range_t stretches(const pieces_t *p, int64_t start, int64_t bytes) {
  return (range_t){(int32_t)shoal_edges_find(p->bounds, p->bound_count, start),
                   (int32_t)shoal_edges_find(p->bounds, p->bound_count, start + bytes)};
}

static void find_stretches(pieces_t *p) {
  for (int64_t b = 0; b < p->c->buffer_count; ++b) {
    const shoal_buffer_t *buffer = &p->c->buffers[b];
    for (int32_t s = 0; p->ranges[b] && s < shoal_buffer_slots(p->c, buffer); ++s)
      p->ranges[b][s] = stretches(p, shoal_buffer_slot_place(p->c, buffer, s), buffer->bytes);
  }
  for (int64_t s = 0; s < p->c->segment_count; ++s)
    for (int64_t i = 0; i < p->views[s].items.count; ++i) {
      item_t *item = &p->views[s].items.items[i];
      if (item->buffer < 0) item->range = stretches(p, item->offset, item->bytes);
    }
}

enum { WRITTEN = 1 << SHOAL_MAX_QUEUES };  // beside the queues that touch a stretch

// Stretches where nothing can go wrong are no pieces.
static shoal_status_t choose_pieces(pieces_t *p) {
  uint32_t *use = SHOAL_NEW(p->arena, uint32_t, p->bound_count);
  p->numbers = SHOAL_NEW(p->arena, int32_t, p->bound_count + 1);
  if (!use || !p->numbers) return SHOAL_OOM();
  for (int64_t s = 0; s < p->c->segment_count; ++s)
    for (int64_t i = 0; i < p->views[s].items.count; ++i) {
      const item_t *item = &p->views[s].items.items[i];
      const bool buffer = item->buffer >= 0;
      const int32_t slots = buffer ? shoal_buffer_slots(p->c, &p->c->buffers[item->buffer]) : 1;
      for (int32_t slot = 0; slot < slots; ++slot) {
        const range_t range = buffer ? p->ranges[item->buffer][slot] : item->range;
        for (int32_t k = range.from; k < range.to; ++k)
          use[k] |= item->queues | (item->writer >= 0 ? WRITTEN : 0);
      }
    }
  for (int64_t i = 0; i < p->bound_count; ++i) {
    const uint32_t queues = use[i] & (WRITTEN - 1);
    const bool kept = use[i] & WRITTEN && queues & (queues - 1);
    p->numbers[i + 1] = p->numbers[i] + kept;
  }
  if (p->bound_count > 0) p->count = p->numbers[p->bound_count];
  return NULL;
}

static range_t pieces_of(const pieces_t *p, range_t stretches) {
  return (range_t){p->numbers[stretches.from], p->numbers[stretches.to]};
}

shoal_status_t shoal_lower_pieces(const shoal_class_t *c, const shoal_order_t *order,
                                  shoal_arena_t *arena, pieces_t *out_pieces) {
  pieces_t *p = out_pieces;
  *p = (pieces_t){.c = c, .arena = arena};
  SHOAL_RETURN_IF_ERROR(view_segments(p, order));
  p->ranges = SHOAL_NEW(p->arena, range_t *, p->c->buffer_count);
  if (!p->ranges) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(cut_arena(p));
  find_stretches(p);
  SHOAL_RETURN_IF_ERROR(choose_pieces(p));
  for (int64_t b = 0; b < p->c->buffer_count; ++b)
    for (int32_t s = 0; p->ranges[b] && s < shoal_buffer_slots(p->c, &p->c->buffers[b]); ++s)
      p->ranges[b][s] = pieces_of(p, p->ranges[b][s]);
  for (int64_t s = 0; s < p->c->segment_count; ++s)
    for (int64_t i = 0; i < p->views[s].items.count; ++i) {
      item_t *item = &p->views[s].items.items[i];
      if (item->buffer < 0) item->range = pieces_of(p, item->range);
    }
  return NULL;
}
