// Boxes: the meaning of a layout. This is the only file that knows how a dim is dealt out; the
// rules are at the head of shoal/layout.h.
//
// Dims are independent: along each, the cuts are applied outermost first. Between two cuts a part
// is a list of owned intervals plus, where there are no chunks (so that it is one interval), the
// *origin* that items count from and the held interval that an inner halo is clipped to. The origin
// of a part that lies behind the dim's end (items reach further than the dim) keeps its place, so
// its halo is right.
#include "layout/layout_impl.h"

__extension__ typedef __int128 wide_t;  // units times weights

// ---- dealing ---------------------------------------------------------------------------

typedef struct quota {
  int64_t floor, rest;  // units * weight = floor * sum + rest
} quota_t;

static quota_t quota(int64_t units, int64_t weight, int64_t sum) {
  wide_t product = (wide_t)units * weight;
  return (quota_t){(int64_t)(product / sum), (int64_t)(product % sum)};
}

// Gives the units of part `index`, and if starts is not NULL those of all parts before it too.
static void deal_weighted(int64_t units, int64_t parts, const int64_t *weights, int64_t index,
                          int64_t *starts, int64_t *out_from, int64_t *out_to) {
  int64_t sum = 0, left = units;
  for (int64_t i = 0; i < parts; ++i) sum += weights[i];
  for (int64_t i = 0; i < parts; ++i) left -= quota(units, weights[i], sum).floor;
  // `left` parts get one more unit: those whose rest is above a limit, and the first few at the
  // limit. The limit is the largest value that at least `left` rests reach.
  int64_t limit = sum, above = 0;
  if (left > 0) {
    int64_t low = 0;  // reached by at least `left`; `limit` is not
    while (limit - low > 1) {
      int64_t middle = low + (limit - low) / 2, count = 0;
      for (int64_t i = 0; i < parts; ++i) count += quota(units, weights[i], sum).rest >= middle;
      if (count >= left)
        low = middle;
      else
        limit = middle;
    }
    limit = low;
    for (int64_t i = 0; i < parts; ++i) above += quota(units, weights[i], sum).rest > limit;
  }
  int64_t at_limit = left - above, from = 0, to = 0;
  for (int64_t i = 0; i <= index; ++i) {
    quota_t q = quota(units, weights[i], sum);
    from = to;
    if (starts) starts[i] = from;
    to += q.floor + (q.rest > limit);
    if (left > 0 && q.rest == limit && at_limit > 0) {
      --at_limit;
      ++to;
    }
  }
  *out_from = from;
  *out_to = to;
}

enum { RECENT = 16 };  // deals that are searched; outer parts come one after the other

// Where all parts of a weighted deal start, and its end; NULL when memory is short.
static const int64_t *deal_starts(shoal_deals_t *deals, int64_t units, int64_t parts,
                                  const int64_t *weights) {
  for (int64_t i = deals->count; i-- > shoal_max64(0, deals->count - RECENT);) {
    const shoal_deal_t *deal = &deals->items[i];
    if (deal->weights == weights && deal->units == units && deal->parts == parts) {
      return deal->starts;
    }
  }
  int64_t *starts = SHOAL_NEW(deals->arena, int64_t, parts + 1), from;
  deals->failed |= !starts;
  if (!starts) return NULL;
  deal_weighted(units, parts, weights, parts - 1, starts, &from, &starts[parts]);
  const bool kept =
      SHOAL_PUSH(deals->arena, deals, ((shoal_deal_t){weights, units, parts, starts}));
  deals->failed |= !kept;
  return kept ? starts : NULL;
}

void shoal_layout_deal(int64_t units, int64_t parts, const int64_t *weights, int64_t index,
                       shoal_deals_t *deals, int64_t *out_from, int64_t *out_to) {
  const int64_t *starts = weights && deals ? deal_starts(deals, units, parts, weights) : NULL;
  if (starts) {
    *out_from = starts[index];
    *out_to = starts[index + 1];
    return;
  }
  if (weights) {
    deal_weighted(units, parts, weights, index, NULL, out_from, out_to);
    return;
  }
  int64_t each = units / parts, larger = units % parts;
  *out_from = index * each + shoal_min64(index, larger);
  *out_to = *out_from + each + (index < larger);
}

void shoal_layout_deal_length(int64_t length, int64_t unit, int64_t parts, const int64_t *weights,
                              int64_t index, shoal_deals_t *deals, int64_t *out_from,
                              int64_t *out_to) {
  int64_t units = length / unit + (length % unit != 0), from, to;
  shoal_layout_deal(units, parts, weights, index, deals, &from, &to);
  *out_from = from == units ? length : from * unit;
  *out_to = to == units ? length : to * unit;
}

// ---- one dim ---------------------------------------------------------------------------

typedef shoal_dim_list_t list_t;
typedef shoal_dim_state_t part_t;

static int64_t list_size(const list_t *list) {
  int64_t size = 0;
  for (int32_t i = 0; i < list->count; ++i) size += list->items[i].size;
  return size;
}

// Appends, joining with the last interval where they touch. Starts ascend; there is room.
static void list_add(list_t *list, int64_t start, int64_t size) {
  if (size <= 0) return;
  shoal_interval_t *last = list->count ? &list->items[list->count - 1] : NULL;
  if (last && last->start + last->size == start)
    last->size += size;
  else
    list->items[list->count++] = (shoal_interval_t){start, size};
}

// Appends what lies at packed positions [from, to) of `list` between the indices low and high of
// the dim. Packed positions count only what lies between low and high.
static void list_add_slice(list_t *out, const list_t *list, int64_t low, int64_t high, int64_t from,
                           int64_t to) {
  int64_t packed = 0;
  for (int32_t i = 0; i < list->count && packed < to; ++i) {
    int64_t start = shoal_max64(list->items[i].start, low);
    int64_t size = shoal_min64(list->items[i].start + list->items[i].size, high) - start;
    if (size <= 0) continue;
    int64_t a = shoal_max64(from, packed), b = shoal_min64(to, packed + size);
    list_add(out, start + (a - packed), b - a);
    packed += size;
  }
}

int64_t shoal_dim_list_between(const shoal_dim_list_t *list, int64_t low, int64_t high) {
  int64_t size = 0;
  for (int32_t i = 0; i < list->count; ++i) {
    int64_t start = shoal_max64(list->items[i].start, low);
    size += shoal_max64(0, shoal_min64(list->items[i].start + list->items[i].size, high) - start);
  }
  return size;
}

// The elements [out_start, out_end) that a part's items make of a packed `length`; out_end may lie
// behind it. False: the part has no items.
static bool deal_items(const shoal_cut_t *cut, int64_t items, int64_t unit, int64_t length,
                       int64_t parts, int64_t index, shoal_deals_t *deals, int64_t *out_start,
                       int64_t *out_end, int64_t *out_items) {
  int64_t from, to;
  shoal_layout_deal(items, parts, cut->weights, index, deals, &from, &to);
  *out_items = to - from;
  *out_start = from * unit;
  *out_end = to == items ? shoal_max64(to * unit, length) : to * unit;
  return items == 0 ? index == 0 : from < to;
}

static int64_t unit_of(const shoal_cut_t *cut, int32_t chunk) {
  if (cut->chunk_count && cut->chunks[0].length && cut->chunks[chunk].unit) {
    return cut->chunks[chunk].unit;
  }
  return shoal_max64(cut->unit, 1);
}

// Items that a cut with items deals out.
static int64_t items_of(const shoal_cut_t *cut, int64_t unit, const shoal_dim_state_t *outer) {
  bool same = !cut->chunk_count && outer->dealt_items && outer->unit == unit;
  return same ? outer->items : cut->items == SHOAL_NO_ITEMS ? 0 : cut->items;
}

int64_t shoal_cut_units(const shoal_cut_t *cut, int32_t chunk, const shoal_dim_state_t *outer,
                        int64_t length) {
  int64_t unit = unit_of(cut, chunk);
  return cut->items ? items_of(cut, unit, outer) : length / unit + (length % unit != 0);
}

bool shoal_cut_share(const shoal_cut_t *cut, int32_t chunk, const shoal_dim_state_t *outer,
                     int64_t length, int64_t parts, int64_t index, shoal_cut_share_t *out) {
  int64_t unit = unit_of(cut, chunk);
  if (cut->items) {
    return deal_items(cut, items_of(cut, unit, outer), unit, length, parts, index, outer->deals,
                      &out->start, &out->end, &out->items);
  }
  out->items = 0;
  shoal_layout_deal_length(length, unit, parts, cut->weights, index, outer->deals, &out->start,
                           &out->end);
  return out->start < out->end;
}

int64_t shoal_cut_chunk_end(const shoal_cut_t *cut, int32_t chunk, int64_t start, int64_t length) {
  return start +
         (cut->chunks[0].length == 0 ? length / cut->chunk_count : cut->chunks[chunk].length);
}

// Each chunk is dealt on its own. `next` has room for every interval and every chunk.
static void cut_chunks(const shoal_cut_t *cut, int64_t length, int64_t parts, int64_t index,
                       const part_t *outer, list_t *next) {
  int64_t low = 0;
  for (int32_t i = 0; i < cut->chunk_count && low < length; ++i) {
    int64_t high = shoal_cut_chunk_end(cut, i, low, length);
    int64_t size = shoal_dim_list_between(&outer->own, low, high);
    shoal_cut_share_t share;
    if (shoal_cut_share(cut, i, outer, size, parts, index, &share)) {
      list_add_slice(next, &outer->own, low, high, share.start, share.end);
    }
    low = high;
  }
}

static void cut_plain(const shoal_cut_t *cut, int64_t parts, int64_t index, part_t *part,
                      list_t *next) {
  int64_t length = list_size(&part->own);
  shoal_cut_share_t share;
  bool any = shoal_cut_share(cut, 0, part, length, parts, index, &share);
  int64_t start = share.start, end = share.end;
  part->dealt_items = cut->items != 0;
  part->items = share.items;
  part->unit = shoal_max64(cut->unit, 1);
  if (!any) {
    part->held_to = part->held;
    part->origin += start;
    return;
  }
  part->held = shoal_max64(part->held, part->origin + start - cut->before);
  part->held_to = shoal_min64(part->held_to, part->origin + end + cut->after);
  start += shoal_max64(0, -cut->before);
  end -= shoal_max64(0, -cut->after);
  part->origin += start;
  list_add_slice(next, &part->own, INT64_MIN, INT64_MAX, start, shoal_min64(end, length));
}

// What the tile leaves of a dim. `own` has room for every chunk.
static void take_tile(const shoal_tile_t *tile, int64_t length, part_t *state) {
  const shoal_cut_t *cut = &tile->cut;
  int64_t low = 0;
  for (int32_t i = 0; i < (cut->chunk_count ? cut->chunk_count : 1) && low < length; ++i) {
    int64_t high = cut->chunk_count ? shoal_cut_chunk_end(cut, i, low, length) : length, from, to;
    shoal_layout_deal_length(high - low, unit_of(cut, i), tile->count, NULL, tile->index, NULL,
                             &from, &to);
    list_add(&state->own, low + from, to - from);
    state->origin = state->held = low + from;  // they count where there are no chunks
    state->held_to = low + to;
    low = high;
  }
  state->chunked = cut->chunk_count > 0;
}

shoal_status_t shoal_dim_state_init(int64_t length, const shoal_tile_t *tile, shoal_deals_t *deals,
                                    shoal_arena_t *arena, shoal_dim_state_t *out_state) {
  shoal_dim_state_t state = {.held = 0, .held_to = length, .deals = deals};
  // A dim of length 0 divides into any number of chunks: do not make room for them.
  const int64_t chunks = tile && length > 0 ? tile->cut.chunk_count : 0;
  state.own.items = SHOAL_NEW(arena, shoal_interval_t, chunks > 0 ? chunks : 1);
  if (!state.own.items) return SHOAL_OOM();
  if (tile)
    take_tile(tile, length, &state);
  else
    list_add(&state.own, 0, length);
  *out_state = state;
  return NULL;
}

shoal_status_t shoal_dim_state_cut(const shoal_mesh_t *mesh, const shoal_cut_t *cut, int64_t length,
                                   int64_t index, shoal_arena_t *arena, shoal_dim_state_t *state) {
  int64_t parts = shoal_layout_axis_size(mesh, cut->axis);
  if (cut->turn) index = (index + cut->turn) % parts;
  // A dim of length 0 divides into any number of chunks: do not make room for them.
  int64_t chunks = state->own.count ? cut->chunk_count : 0;
  list_t next = {.items = SHOAL_NEW(arena, shoal_interval_t, state->own.count + chunks)};
  if (!next.items) return SHOAL_OOM();
  if (cut->chunk_count) {
    cut_chunks(cut, length, parts, index, state, &next);
    state->chunked = true;
    state->dealt_items = false;
  } else {
    cut_plain(cut, parts, index, state, &next);
  }
  state->own = next;
  return state->deals && state->deals->failed ? SHOAL_OOM() : NULL;
}

shoal_status_t shoal_dim_state_part(const shoal_dim_state_t *state, shoal_arena_t *arena,
                                    shoal_dim_part_t *out_part) {
  *out_part = (shoal_dim_part_t){
      .own_count = state->own.count,
      .own = state->own.items,
      .own_size = list_size(&state->own),
  };
  out_part->held_count = out_part->own_count;
  out_part->held = out_part->own;
  out_part->held_size = out_part->own_size;
  int64_t held_size = shoal_max64(0, state->held_to - state->held);
  if (state->chunked || held_size == out_part->own_size) return NULL;
  shoal_interval_t *held = SHOAL_NEW(arena, shoal_interval_t, 1);
  if (!held) return SHOAL_OOM();
  *held = (shoal_interval_t){state->held, held_size};
  out_part->held = held;
  out_part->held_count = held_size > 0;
  out_part->held_size = held_size;
  return NULL;
}

shoal_status_t shoal_layout_dim_part(const shoal_layout_t *layout, int32_t dim, int64_t length,
                                     const int64_t *coords, int64_t micro, shoal_deals_t *deals,
                                     shoal_arena_t *arena, shoal_dim_part_t *out_part) {
  shoal_dim_state_t state;
  SHOAL_RETURN_IF_ERROR(
      shoal_dim_state_init(length, shoal_layout_tile(layout, dim), deals, arena, &state));
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind != SHOAL_CUT_DIM || cut->dim != dim) continue;
    if (cut->axis == SHOAL_AXIS_MICRO && micro < 0) continue;
    int64_t index = cut->axis == SHOAL_AXIS_MICRO ? micro : coords[cut->axis];
    SHOAL_RETURN_IF_ERROR(shoal_dim_state_cut(layout->mesh, cut, length, index, arena, &state));
  }
  return shoal_dim_state_part(&state, arena, out_part);
}

// ---- flat, and all together ------------------------------------------------------------

void shoal_layout_flat_range(const shoal_layout_t *layout, const int64_t *coords, int64_t total,
                             shoal_deals_t *deals, int64_t *out_from, int64_t *out_to) {
  int64_t from = 0, to = total;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind != SHOAL_CUT_FLAT) continue;
    int64_t a, b;
    shoal_layout_deal_length(to - from, shoal_max64(cut->unit, 1),
                             shoal_layout_axis_size(layout->mesh, cut->axis), cut->weights,
                             coords[cut->axis], deals, &a, &b);
    to = from + b;
    from += a;
  }
  *out_from = from;
  *out_to = to;
}

shoal_status_t shoal_layout_boxes(const shoal_layout_t *layout, const shoal_shape_t *shape,
                                  int64_t position, int64_t micro, shoal_arena_t *arena,
                                  shoal_boxes_t *out_boxes) {
  SHOAL_RETURN_IF_ERROR(shoal_layout_check(layout, shape));
  int64_t size = shoal_mesh_size(layout->mesh);
  int64_t micros = shoal_layout_axis_size(layout->mesh, SHOAL_AXIS_MICRO);
  if (position < 0 || position >= size) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "positions count from 0",
                            "position %lld is not on a mesh of %lld ranks", (long long)position,
                            (long long)size);
  }
  if (micro < -1 || micro >= micros) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use -1 for the part over all micro-batches",
                            "there is no micro-batch %lld, the mesh has %lld", (long long)micro,
                            (long long)micros);
  }
  int64_t coords[SHOAL_MAX_AXES];
  shoal_mesh_coords(layout->mesh, position, coords);
  shoal_boxes_t boxes = {.whole = *shape, .flat = shoal_layout_is_flat(layout)};
  int64_t total = 1;
  for (int32_t d = 0; d < shape->rank; ++d) {
    SHOAL_RETURN_IF_ERROR(shoal_layout_dim_part(layout, d, shape->dims[d], coords, micro, NULL,
                                                arena, &boxes.dims[d]));
    total *= boxes.dims[d].own_size;
  }
  if (boxes.flat) shoal_layout_flat_range(layout, coords, total, NULL, &boxes.from, &boxes.to);
  *out_boxes = boxes;
  return NULL;
}

shoal_shape_t shoal_boxes_shape(const shoal_boxes_t *boxes) {
  if (boxes->flat) return (shoal_shape_t){1, {boxes->to - boxes->from}};
  shoal_shape_t shape = {.rank = boxes->whole.rank};
  for (int32_t d = 0; d < shape.rank; ++d) shape.dims[d] = boxes->dims[d].held_size;
  return shape;
}
