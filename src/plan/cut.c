// See cut.h.
#include "plan/cut.h"

#include <math.h>

static int64_t unit_of(int64_t unit) {
  return unit > 0 ? unit : 1;
}

// Chunk i as (length, unit), equal chunks spelled out.
static shoal_chunk_t chunk_of(const shoal_cut_t *cut, int64_t length, int32_t i) {
  shoal_chunk_t chunk = {length, unit_of(cut->unit)};
  if (cut->chunk_count == 0) return chunk;
  bool equal = cut->chunks[0].length == 0;
  chunk.length = equal ? length / cut->chunk_count : cut->chunks[i].length;
  if (!equal && cut->chunks[i].unit > 0) chunk.unit = cut->chunks[i].unit;
  return chunk;
}

bool shoal_cut_same(const shoal_cut_t *a, const shoal_cut_t *b, const shoal_shape_t *shape,
                    bool ignore_halo) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind) return false;
  if (a->kind == SHOAL_CUT_PARTIAL) return a->reduce == b->reduce;
  if ((a->weights != NULL) != (b->weights != NULL)) return false;
  if (a->weights && a->weights != b->weights) return false;
  if (a->kind == SHOAL_CUT_FLAT) return unit_of(a->unit) == unit_of(b->unit);
  if (a->dim != b->dim || a->items != b->items) return false;
  if (!ignore_halo && (a->before != b->before || a->after != b->after)) return false;
  int32_t chunks_a = a->chunk_count > 0 ? a->chunk_count : 1;
  int32_t chunks_b = b->chunk_count > 0 ? b->chunk_count : 1;
  if (chunks_a != chunks_b) return false;
  bool equal_chunks = a->chunk_count > SHOAL_MAX_CHUNKS || b->chunk_count > SHOAL_MAX_CHUNKS;
  for (int32_t i = 0; i < (equal_chunks ? 1 : chunks_a); ++i) {
    shoal_chunk_t x = chunk_of(a, shape->dims[a->dim], i), y = chunk_of(b, shape->dims[b->dim], i);
    if (x.length != y.length || x.unit != y.unit) return false;
  }
  return true;
}

// Does each rank have one run of the dim, in the order of ranks?
static bool is_runs(const shoal_cut_t *cut) {
  return cut->kind == SHOAL_CUT_DIM && cut->chunk_count == 0 && !cut->weights;
}

double shoal_cut_change(const shoal_cut_t *have, const shoal_cut_t *need,
                        const shoal_shape_t *shape, double bytes) {
  if (shoal_cut_same(have, need, shape, false)) return 0;
  // A local slice moves nothing, but whoever wants the whole again pays: so a little more than
  // nothing.
  if (!have) return need->kind == SHOAL_CUT_PARTIAL ? 3 * bytes : 0.02 * bytes;
  if (!need) return have->kind == SHOAL_CUT_PARTIAL ? 2 * bytes : bytes;
  // A reduce-scatter moves half of what an all-reduce does, but the other half comes due when the
  // whole is wanted again: it is not taken for its own sake, only where a pin or another input asks
  // for the cut.
  if (have->kind == SHOAL_CUT_PARTIAL)
    return need->kind == SHOAL_CUT_PARTIAL ? INFINITY : 2 * bytes;
  if (need->kind == SHOAL_CUT_PARTIAL) return 4 * bytes;
  if (shoal_cut_same(have, need, shape, true)) return 0.05 * bytes;  // only halos are exchanged
  // Runs of one dim in the same order, dealt by other units: what lies between an old and a new
  // border goes to a neighbour, the rest stays.
  if (is_runs(have) && is_runs(need) && have->dim == need->dim) return 0.25 * bytes;
  return bytes;
}

double shoal_cut_change_micro(const shoal_cut_t *have, const shoal_cut_t *need,
                              const shoal_shape_t *shape, double bytes) {
  if (shoal_cut_same(have, need, shape, false)) return 0;
  if (!have) return need->kind == SHOAL_CUT_DIM ? 0.02 * bytes : INFINITY;
  if (need) return INFINITY;
  // Leaving the loop: sums accumulate as they come; gathering keeps all micro-batches in memory.
  return have->kind == SHOAL_CUT_PARTIAL ? 0.5 * bytes : 100 * bytes + 1e6;
}
