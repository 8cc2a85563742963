// From ways to layouts and back: how an operand is cut when a plan deals a way's items along an
// axis.
//
// Everything goes through a list of *pieces*: intervals of the item space that are dealt each on
// its own. A plan's chunks are pieces; so are the windows of the way's operands, because a boundary
// of a window must be a boundary of what is dealt (a slice out of a fused matrix). An operand sees
// the pieces inside its window, `repeat` times, each item `scale` elements long. One piece is a
// plain cut; pieces that are all alike are written as equal chunks, so that there is one spelling
// for one cut.
#include "rules/rules.h"

#include <string.h>

#include "base/status.h"

enum { MAX_PIECES = 64 };

typedef struct pieces {
  int64_t count;
  bool alike;  // items[0] stands for all
  shoal_chunk_t items[MAX_PIECES];
} pieces_t;

static int64_t at_least_1(int64_t value) {
  return value > 1 ? value : 1;
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

static const shoal_chunk_t *piece(const pieces_t *pieces, int64_t index) {
  return &pieces->items[pieces->alike ? 0 : index];
}

// ---- the item space ----------------------------------------------------------------------------

// Items, where the way knows them or this operand shows them; else as far as its windows reach.
static int64_t item_count(const shoal_way_t *way, const shoal_way_operand_t *o, int64_t length) {
  if (way->items) return way->items;
  if (o->length == 0 && !o->dealt_by_items) return length / (o->scale * o->repeat);
  int64_t items = 0;
  for (int32_t i = 0; i < way->input_count + way->output_count; ++i) {
    const shoal_way_operand_t *other = &way->operands[i];
    if (other->kind != SHOAL_OPERAND_CUT || other->length == 0) continue;
    if (other->offset + other->length > items) items = other->offset + other->length;
  }
  return items;
}

// Where windows begin and end, ascending, without 0 and `items`. Returns how many, -1 for too many.
static int32_t breakpoints(const shoal_way_t *way, int64_t items, int64_t points[MAX_PIECES]) {
  int32_t count = 0;
  for (int32_t i = 0; i < 2 * (way->input_count + way->output_count); ++i) {
    const shoal_way_operand_t *o = &way->operands[i / 2];
    if (o->kind != SHOAL_OPERAND_CUT || o->length == 0) continue;
    int64_t point = i % 2 ? o->offset + o->length : o->offset;
    if (point <= 0 || point >= items) continue;
    int32_t at = 0;
    while (at < count && points[at] < point) ++at;
    if (at < count && points[at] == point) continue;
    if (count == MAX_PIECES - 1) return -1;
    memmove(&points[at + 1], &points[at], sizeof(int64_t) * (size_t)(count - at));
    points[at] = point;
    ++count;
  }
  return count;
}

// Is every point a boundary of the pieces, which lie from `start` on? Points outside them do not
// matter.
static bool refines(const pieces_t *pieces, int64_t start, const int64_t *points,
                    int32_t point_count) {
  if (pieces->alike) {
    int64_t length = pieces->items[0].length, end = start + pieces->count * length;
    for (int32_t i = 0; i < point_count; ++i) {
      if (points[i] > start && points[i] < end && (points[i] - start) % length) return false;
    }
    return true;
  }
  int32_t at = 0;
  int64_t end = start;
  while (at < point_count && points[at] <= start) ++at;
  for (int64_t i = 0; i < pieces->count; ++i) {
    end += pieces->items[i].length;
    if (at < point_count && points[at] < end) return false;
    if (at < point_count && points[at] == end) ++at;
  }
  return true;
}

// The pieces that the windows alone make.
static void window_pieces(int64_t items, int64_t unit, const int64_t *points, int32_t point_count,
                          pieces_t *out) {
  *out = (pieces_t){.count = point_count + 1};
  for (int32_t i = 0; i <= point_count; ++i) {
    int64_t from = i ? points[i - 1] : 0, to = i < point_count ? points[i] : items;
    out->items[i] = (shoal_chunk_t){to - from, unit};
  }
}

// Equal chunks or lengths, each with its unit; false when they do not make up `total`.
static bool given_pieces(int32_t count, const shoal_chunk_t *chunks, int64_t unit, int64_t total,
                         pieces_t *out) {
  *out = (pieces_t){.count = count, .alike = chunks[0].length == 0};
  if (out->alike) {
    out->items[0] = (shoal_chunk_t){total / count, unit};
    return total % count == 0;
  }
  if (count > SHOAL_MAX_CHUNKS) return false;
  for (int32_t i = 0; i < count; ++i) {
    out->items[i] = (shoal_chunk_t){chunks[i].length, chunks[i].unit ? chunks[i].unit : unit};
    total -= chunks[i].length;
  }
  return total == 0;
}

static shoal_status_t item_pieces(const shoal_way_t *way, int64_t items,
                                  const shoal_item_cut_t *cut, pieces_t *out) {
  int64_t points[MAX_PIECES], unit = at_least_1(cut->unit);
  int32_t point_count = breakpoints(way, items, points);
  if (point_count < 0) {
    return SHOAL_ERROR(UNSUPPORTED, "the way has more than %d windows", MAX_PIECES);
  }
  if (cut->chunk_count == 0) {
    window_pieces(items, unit, points, point_count, out);
    return NULL;
  }
  if (!given_pieces(cut->chunk_count, cut->chunks, unit, items, out)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "chunk lengths count items and add up to all of them",
                            "%d chunks do not make up the way's %lld items", cut->chunk_count,
                            (long long)items);
  }
  if (!refines(out, 0, points, point_count)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "begin a chunk where a window begins or ends",
                            "the chunks straddle a boundary of the way's windows");
  }
  if (!way->any_order && out->count != point_count + 1) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "deal the items without chunks",
                            "the way is not right when its items are dealt in chunks");
  }
  return NULL;
}

// ---- one operand -------------------------------------------------------------------------------

static shoal_status_t check_operand(const shoal_way_t *way, int32_t operand,
                                    const shoal_shape_t *shape) {
  if (operand < 0 || operand >= way->input_count + way->output_count) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the way has no operand %d", operand);
  }
  const shoal_way_operand_t *o = &way->operands[operand];
  if (o->kind != SHOAL_OPERAND_CUT) return NULL;
  if (o->dim < 0 || o->dim >= shape->rank || o->scale < 1 || o->repeat < 1) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the way cuts dim %d of operand %d, which has %d dims",
                       o->dim, operand, shape->rank);
  }
  int64_t length = shape->dims[o->dim], each = o->scale * o->repeat, all;
  int64_t window = o->length ? o->length : item_count(way, o, length);
  bool fits = !__builtin_mul_overflow(window, each, &all);
  if (fits && (o->dealt_by_items || all == length)) return NULL;
  return SHOAL_ERROR(
      INVALID_ARGUMENT,
      "the way cuts dim %d of operand %d into %lld items of %lld, but its length is %lld", o->dim,
      operand, (long long)window, (long long)each, (long long)length);
}

// Keeps the pieces inside [from, from + length); boundaries agree.
static void restrict_pieces(pieces_t *pieces, int64_t from, int64_t length) {
  int64_t at = 0, kept = 0, i = 0;
  if (pieces->alike) {
    pieces->count = length / pieces->items[0].length;
    return;
  }
  for (; i < pieces->count; ++i) {
    if (at >= from && at < from + length) pieces->items[kept++] = pieces->items[i];
    at += pieces->items[i].length;
  }
  pieces->count = kept;
}

static void find_alike(pieces_t *pieces) {
  if (pieces->alike) return;
  for (int64_t i = 1; i < pieces->count; ++i) {
    const shoal_chunk_t *a = &pieces->items[0], *b = &pieces->items[i];
    if (a->length != b->length || a->unit != b->unit) return;
  }
  pieces->alike = true;
}

// Writes the pieces, `repeat` times, as the chunks of a cut. False when there are too many to
// write.
static bool put_chunks(const pieces_t *pieces, int64_t repeat, int64_t scale, int64_t *out_unit,
                       int32_t *out_count, shoal_chunk_t *out_chunks) {
  int64_t count = pieces->count * repeat;
  if (count > INT32_MAX || (count > SHOAL_MAX_CHUNKS && !pieces->alike)) return false;
  *out_unit = scale * pieces->items[0].unit;
  if (count == 1) return true;
  *out_count = (int32_t)count;
  if (pieces->alike) return true;  // chunks[0].length 0: equal
  for (int64_t i = 0; i < count; ++i) {
    const shoal_chunk_t *p = piece(pieces, i % pieces->count);
    int64_t unit = scale * p->unit;
    out_chunks[i] = (shoal_chunk_t){scale * p->length, unit == *out_unit ? 0 : unit};
  }
  return true;
}

static shoal_status_t cut_dim(const shoal_way_t *way, const shoal_way_operand_t *o, int64_t length,
                              const shoal_item_cut_t *item_cut, shoal_cut_t *cut) {
  int64_t items = item_count(way, o, length), given = 0;
  for (int32_t i = 0; i < item_cut->chunk_count && i < SHOAL_MAX_CHUNKS; ++i) {
    given += item_cut->chunks[i].length;
  }
  if (!way->items && o->length && given > items)
    items = given;  // a parsed way: its text does not say
  cut->dim = o->dim;
  cut->before = o->before;
  cut->after = o->after;
  pieces_t pieces;
  SHOAL_RETURN_IF_ERROR(item_pieces(way, items, item_cut, &pieces));
  restrict_pieces(&pieces, o->offset, o->length ? o->length : items);
  find_alike(&pieces);
  if (o->dealt_by_items || o->before || o->after) {
    if (pieces.count > 1 || o->repeat > 1) {
      return SHOAL_ERROR_HINT(UNSUPPORTED, "deal the items without chunks",
                              "a way with halo or dealt items cannot be cut in chunks");
    }
    cut->unit = o->scale * pieces.items[0].unit;
    if (o->dealt_by_items) cut->items = ceil_div(items, pieces.items[0].unit);
    return NULL;
  }
  if (!put_chunks(&pieces, o->repeat, o->scale, &cut->unit, &cut->chunk_count, cut->chunks)) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "use equal chunks, or fewer",
                            "%lld unequal chunks repeated %lld times cannot be written as a cut",
                            (long long)pieces.count, (long long)o->repeat);
  }
  return NULL;
}

shoal_status_t shoal_way_cut(const shoal_way_t *way, int32_t operand, const shoal_shape_t *shape,
                             int32_t axis, const shoal_item_cut_t *item_cut, bool *out_cuts,
                             shoal_cut_t *out_cut) {
  SHOAL_RETURN_IF_ERROR(check_operand(way, operand, shape));
  const shoal_way_operand_t *o = &way->operands[operand];
  const shoal_item_cut_t plain = {0};
  if (!item_cut) item_cut = &plain;
  shoal_cut_t cut = {.axis = axis};
  switch (o->kind) {
    case SHOAL_OPERAND_WHOLE:
      *out_cuts = false;
      return NULL;
    case SHOAL_OPERAND_PARTIAL:
      cut.kind = SHOAL_CUT_PARTIAL;
      cut.reduce = o->reduce;
      break;
    case SHOAL_OPERAND_FLAT:
      if (item_cut->chunk_count) {
        return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "flat takes a unit and weights only",
                                "a flat way cannot be dealt in chunks");
      }
      cut.kind = SHOAL_CUT_FLAT;
      cut.unit = at_least_1(item_cut->unit);
      cut.weights = item_cut->weights;
      break;
    case SHOAL_OPERAND_CUT:
      cut.kind = SHOAL_CUT_DIM;
      cut.weights = item_cut->weights;
      SHOAL_RETURN_IF_ERROR(cut_dim(way, o, shape->dims[o->dim], item_cut, &cut));
      break;
  }
  *out_cut = cut;
  *out_cuts = true;
  return NULL;
}

// ---- and back ----------------------------------------------------------------------------------

// The cut's pieces in items, of one copy of the window; false if they are not `repeat` equal
// copies.
static bool operand_pieces(const shoal_way_operand_t *o, int64_t window, const shoal_cut_t *cut,
                           pieces_t *out) {
  int64_t unit = at_least_1(cut->unit), length = window * o->scale * o->repeat;
  if (cut->chunk_count == 0) {
    *out = (pieces_t){.count = 1, .items = {{length, unit}}};
  } else if (!given_pieces(cut->chunk_count, cut->chunks, unit, length, out)) {
    return false;
  }
  find_alike(out);
  if (out->count % o->repeat) return false;
  int64_t each = out->count / o->repeat, sum = 0;
  for (int64_t i = each; !out->alike && i < out->count; ++i) {
    const shoal_chunk_t *a = &out->items[i], *b = &out->items[i % each];
    if (a->length != b->length || a->unit != b->unit) return false;
  }
  out->count = each;
  for (int64_t i = 0; i < (out->alike ? 1 : each); ++i) {
    shoal_chunk_t *p = &out->items[i];
    if (p->length % o->scale || p->unit % o->scale) return false;
    *p = (shoal_chunk_t){p->length / o->scale, p->unit / o->scale};
    sum += p->length;
  }
  return (out->alike ? each * sum : sum) == window;
}

// All pieces of the item space: the windows' own, with those inside [from, from + window) replaced.
static bool splice(const pieces_t *own, int64_t from, int64_t window, const pieces_t *inside,
                   pieces_t *out) {
  if (own->count == 1) {
    *out = *inside;
    return true;
  }
  if (own->count + inside->count > MAX_PIECES) return false;
  *out = (pieces_t){0};
  int64_t at = 0;
  for (int64_t i = 0; i < own->count; ++i) {
    if (at == from) {
      for (int64_t k = 0; k < inside->count; ++k) out->items[out->count++] = *piece(inside, k);
    }
    if (at < from || at >= from + window) out->items[out->count++] = own->items[i];
    at += own->items[i].length;
  }
  return true;
}

// Is the cut of a halo or dealt-by-items operand, or one that gives items, dealt as the items are?
static bool same_units(const shoal_way_operand_t *o, int64_t items, int64_t length,
                       const shoal_cut_t *cut) {
  int64_t unit = at_least_1(cut->unit);
  int64_t given = cut->items == SHOAL_NO_ITEMS ? 0
                  : cut->items                 ? cut->items
                                               : ceil_div(length, unit);
  return !cut->chunk_count && unit % o->scale == 0 && given == ceil_div(items, unit / o->scale);
}

static bool match_dim(const shoal_way_t *way, const shoal_way_operand_t *o, int64_t length,
                      const shoal_cut_t *cut, shoal_item_cut_t *out) {
  int64_t items = item_count(way, o, length), window = o->length ? o->length : items;
  int64_t points[MAX_PIECES];
  int32_t point_count = breakpoints(way, items, points);
  if (o->dealt_by_items || (cut->items && o->repeat == 1)) {
    if (point_count || !same_units(o, items, length, cut)) return false;
    out->unit = at_least_1(cut->unit) / o->scale;
    return true;
  }
  pieces_t inside, own, all;
  if (cut->items || !operand_pieces(o, window, cut, &inside)) return false;
  int64_t unit = inside.items[0].unit;
  if (point_count < 0 || !refines(&inside, o->offset, points, point_count)) return false;
  window_pieces(items, unit, points, point_count, &own);
  if (!splice(&own, o->offset, window, &inside, &all)) return false;
  bool alike_units = true;
  for (int64_t i = 0; i < all.count; ++i) alike_units &= piece(&all, i)->unit == unit;
  if (all.count == own.count && alike_units) {
    out->unit = unit;
    return true;
  }
  if (all.count != own.count && !way->any_order) return false;
  find_alike(&all);
  return put_chunks(&all, 1, 1, &out->unit, &out->chunk_count, out->chunks);
}

bool shoal_way_match(const shoal_way_t *way, int32_t operand, const shoal_shape_t *shape,
                     const shoal_cut_t *cut, shoal_item_cut_t *out_item_cut) {
  shoal_status_t status = check_operand(way, operand, shape);
  if (status) {
    shoal_status_free(status);
    return false;
  }
  const shoal_way_operand_t *o = &way->operands[operand];
  shoal_item_cut_t found = {.unit = 1};
  switch (o->kind) {
    case SHOAL_OPERAND_WHOLE:
      return false;
    case SHOAL_OPERAND_PARTIAL:
      if (cut->kind != SHOAL_CUT_PARTIAL || cut->reduce != o->reduce) return false;
      break;
    case SHOAL_OPERAND_FLAT:
      if (cut->kind != SHOAL_CUT_FLAT) return false;
      found.unit = at_least_1(cut->unit);
      found.weights = cut->weights;
      break;
    case SHOAL_OPERAND_CUT:
      if (cut->kind != SHOAL_CUT_DIM || cut->dim != o->dim) return false;
      found.weights = cut->weights;
      if (!match_dim(way, o, shape->dims[o->dim], cut, &found)) return false;
      break;
  }
  *out_item_cut = found;
  return true;
}
