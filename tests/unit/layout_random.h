// Random reshards, drawn from a seed: two layouts, on one mesh or on two that share all, some or no
// ranks, and a shape. Everything that a layout can say is drawn: uneven dims, units, chunks, items,
// weights, halos and trims, flat ranges, partials, micro-batches, rank lists. A case prints itself.
#ifndef SHOAL_TESTS_LAYOUT_RANDOM_H_
#define SHOAL_TESTS_LAYOUT_RANDOM_H_

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "shoal/layout.h"

typedef struct random_case {
  uint64_t seed, state;
  int64_t most_ranks, most_elements;
  bool plain;  // no halos and no trims
  shoal_mesh_t meshes[2];
  shoal_layout_t src, dst;
  int64_t src_micro, dst_micro;
  shoal_shape_t shape;
} random_case_t;

static uint64_t random_next(random_case_t *r) {
  r->state += UINT64_C(0x9E3779B97F4A7C15);
  uint64_t z = r->state;
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static int64_t random_below(random_case_t *r, int64_t n) {
  return (int64_t)(random_next(r) % (uint64_t)n);
}

static bool random_chance(random_case_t *r, int percent) {
  return random_below(r, 100) < percent;
}

static void random_ranks(random_case_t *r, shoal_arena_t *memory, int64_t from, bool shuffled,
                         shoal_mesh_t *mesh) {
  int64_t size = shoal_mesh_size(mesh);
  int32_t *ranks = SHOAL_NEW(memory, int32_t, size);
  for (int64_t i = 0; i < size; ++i) ranks[i] = (int32_t)(from + i);
  for (int64_t i = size - 1; i > 0 && shuffled; --i) {
    int64_t k = random_below(r, i + 1);
    int32_t swap = ranks[i];
    ranks[i] = ranks[k];
    ranks[k] = swap;
  }
  if (shuffled && random_chance(r, 50)) {
    for (int64_t i = 0; i < size; ++i) ranks[i] = ranks[i] * 2 + 1;  // gaps
  }
  mesh->ranks = ranks;
  if (shoal_mesh_sort(mesh, memory)) mesh->order = NULL;
}

static void random_mesh(random_case_t *r, shoal_mesh_t *out) {
  static const char *const names[] = {"a", "b", "c", "d"};
  shoal_mesh_t mesh = {.axis_count = (int32_t)(1 + random_below(r, random_chance(r, 20) ? 4 : 3))};
  int64_t left = r->most_ranks;
  for (int32_t i = 0; i < mesh.axis_count; ++i) {
    int64_t most = random_chance(r, 15) ? left : left < 6 ? left : 6;
    mesh.axes[i].size = 1 + random_below(r, most);
    if (mesh.axes[i].size == 1 && most > 1 && random_chance(r, 70)) mesh.axes[i].size = 2;
    left /= mesh.axes[i].size;
    snprintf(mesh.axes[i].name, sizeof mesh.axes[i].name, "%s", names[i]);
  }
  if (random_chance(r, 25)) mesh.micro = 2 + random_below(r, 3);
  *out = mesh;
}

static void random_meshes(random_case_t *r, shoal_arena_t *memory) {
  shoal_mesh_t *a = &r->meshes[0], *b = &r->meshes[1];
  random_mesh(r, a);
  if (random_chance(r, 25)) random_ranks(r, memory, random_below(r, 5), random_chance(r, 60), a);
  *b = *a;
  int64_t how = random_below(r, 100), size = shoal_mesh_size(a);
  if (how < 55) return;  // one mesh
  if (how < 67) {        // alike, on other ranks
    random_ranks(r, memory, 1000, random_chance(r, 30), b);
    return;
  }
  if (how < 72 && size * 2 <= r->most_ranks) {  // the second has the first as one of its blocks
    const int64_t blocks = 2 + random_below(r, r->most_ranks / size - 1),
                  first = random_below(r, 3);
    for (int32_t i = a->axis_count; i > 0; --i) b->axes[i] = a->axes[i - 1];
    b->axis_count = a->axis_count + 1;
    b->axes[0] = (shoal_axis_t){.name = "all", .size = blocks};
    random_ranks(r, memory, first, false, b);
    random_ranks(r, memory, first + size * random_below(r, blocks), false, a);
    return;
  }
  if (how >= 75) {  // other axes; below that, the same axes on ranks that are partly the same
    random_mesh(r, b);
    b->micro = a->micro;
  }
  if (how < 85) {
    random_ranks(r, memory, random_below(r, size + 2), random_chance(r, 50), b);
  } else if (how < 95) {
    random_ranks(r, memory, 1000, random_chance(r, 30), b);
  }
}

static void random_shape(random_case_t *r) {
  r->shape = (shoal_shape_t){.rank = (int32_t)random_below(r, random_chance(r, 20) ? 5 : 4)};
  if (r->shape.rank == 0 && random_chance(r, 80)) r->shape.rank = 2;
  int64_t left = r->most_elements;
  for (int32_t d = 0; d < r->shape.rank; ++d) {
    int64_t most = random_chance(r, 30) ? 40 : 12;
    int64_t length = random_chance(r, 3) ? 0 : 1 + random_below(r, most < left ? most : left);
    r->shape.dims[d] = length;
    if (length > 0) left /= length;
    if (left < 1) left = 1;
  }
}

static void random_cut(random_case_t *r, shoal_arena_t *memory, int64_t parts, shoal_cut_t *cut) {
  int64_t length = cut->kind == SHOAL_CUT_DIM ? r->shape.dims[cut->dim] : 20;
  if (random_chance(r, 25)) cut->unit = 1 + random_below(r, 4);
  if (random_chance(r, 12)) {
    int64_t *weights = SHOAL_NEW(memory, int64_t, parts);
    for (int64_t i = 0; i < parts; ++i) weights[i] = random_below(r, 5);
    weights[random_below(r, parts)] += 1;
    cut->weights = weights;
  }
  if (cut->kind != SHOAL_CUT_DIM) return;
  if (parts > 1 && cut->axis >= 0 && random_chance(r, 12))
    cut->turn = 1 + random_below(r, parts - 1);
  if (random_chance(r, 12)) {
    cut->items = random_chance(r, 10) ? SHOAL_NO_ITEMS : 1 + random_below(r, 2 * parts);
  }
  if (random_chance(r, 15) && length > 0) {
    if (random_chance(r, 50)) {
      int32_t chunks = (int32_t)(1 + random_below(r, 4));
      if (length % chunks == 0) cut->chunk_count = chunks;
    } else {
      int64_t left = length;
      while (left > 0 && cut->chunk_count < SHOAL_MAX_CHUNKS) {
        shoal_chunk_t *chunk = &cut->chunks[cut->chunk_count++];
        chunk->length = cut->chunk_count == SHOAL_MAX_CHUNKS ? left : 1 + random_below(r, left);
        if (random_chance(r, 40)) chunk->unit = 1 + random_below(r, 3);
        left -= chunk->length;
      }
    }
  } else if (!r->plain && !cut->turn && random_chance(r, 20)) {
    const int64_t reach = random_chance(r, 20) ? 8 : 3;
    cut->before = random_below(r, reach) - random_chance(r, 15);
    cut->after = random_below(r, reach) - random_chance(r, 15);
  }
}

// A layout that is allowed, on the mesh, sometimes with the cuts of another one.
static void random_layout(random_case_t *r, shoal_arena_t *memory, const shoal_mesh_t *mesh,
                          const shoal_layout_t *like, shoal_layout_t *out) {
  static const shoal_reduce_t reduce[] = {SHOAL_REDUCE_SUM, SHOAL_REDUCE_MAX};
  for (;;) {
    shoal_layout_t layout = {.mesh = mesh};
    shoal_cut_t flats[SHOAL_MAX_AXES];
    int32_t flat_count = 0, order[SHOAL_MAX_AXES];
    for (int32_t i = 0; i < mesh->axis_count; ++i) order[i] = i;
    for (int32_t i = mesh->axis_count - 1; i > 0 && random_chance(r, 50); --i) {
      int32_t k = (int32_t)random_below(r, i + 1), swap = order[i];
      order[i] = order[k];
      order[k] = swap;
    }
    if (mesh->micro > 1) {
      shoal_cut_t cut = {.axis = SHOAL_AXIS_MICRO};
      if (r->shape.rank > 0 && random_chance(r, 60)) {
        cut.kind = SHOAL_CUT_DIM;
        if (random_chance(r, 20)) random_cut(r, memory, mesh->micro, &cut);
        layout.cuts[layout.cut_count++] = cut;
      } else if (random_chance(r, 15)) {
        cut.kind = SHOAL_CUT_PARTIAL;
        layout.cuts[layout.cut_count++] = cut;
      }
    }
    for (int32_t i = 0; i < mesh->axis_count; ++i) {
      shoal_cut_t cut = {.axis = order[i]};
      int64_t kind = random_below(r, 100);
      bool copied = false;
      for (int32_t k = 0; like && k < like->cut_count && random_chance(r, 60) && !copied; ++k) {
        const shoal_cut_t *other = &like->cuts[k];
        if (other->axis < 0 || other->axis >= mesh->axis_count || random_chance(r, 15)) continue;
        if (other->axis != cut.axis && random_chance(r, 80)) continue;
        if (mesh->axes[cut.axis].size != like->mesh->axes[other->axis].size) continue;
        cut = *other;
        cut.axis = order[i];
        copied = true;
        if (cut.kind == SHOAL_CUT_FLAT) flats[flat_count++] = cut;
        if (cut.kind != SHOAL_CUT_FLAT) layout.cuts[layout.cut_count++] = cut;
      }
      if (copied || kind < 30) continue;
      if (kind < 72 && r->shape.rank > 0) {
        cut.kind = SHOAL_CUT_DIM;
        cut.dim = (int32_t)random_below(r, r->shape.rank);
        random_cut(r, memory, mesh->axes[cut.axis].size, &cut);
        layout.cuts[layout.cut_count++] = cut;
      } else if (kind < 84) {
        cut.kind = SHOAL_CUT_FLAT;
        random_cut(r, memory, mesh->axes[cut.axis].size, &cut);
        flats[flat_count++] = cut;
      } else {
        cut.kind = SHOAL_CUT_PARTIAL;
        cut.reduce = reduce[random_chance(r, 5)];
        layout.cuts[layout.cut_count++] = cut;
      }
    }
    for (int32_t i = 0; i < flat_count; ++i) layout.cuts[layout.cut_count++] = flats[i];
    shoal_status_t status = shoal_layout_check(&layout, &r->shape);
    if (!status) {
      *out = layout;
      return;
    }
    shoal_status_free(status);
  }
}

// A layout that differs from another in a cut or two: what programs reshard between.
static void random_change(random_case_t *r, shoal_arena_t *memory, const shoal_layout_t *like,
                          shoal_layout_t *out) {
  const shoal_mesh_t *mesh = like->mesh;
  for (;;) {
    shoal_layout_t layout = *like;
    for (int64_t changes = 1 + random_below(r, 2); changes > 0; --changes) {
      const int32_t axis = (int32_t)random_below(r, mesh->axis_count);
      shoal_cut_t cut = {.axis = axis};
      int32_t at = 0;
      while (at < layout.cut_count && layout.cuts[at].axis != axis) ++at;
      if (at < layout.cut_count) {
        cut = layout.cuts[at];
        if (random_chance(r, 30) && cut.kind == SHOAL_CUT_DIM && !cut.chunk_count && !r->plain) {
          cut.before = random_below(r, 3);
          cut.after = random_below(r, 3);
          layout.cuts[at] = cut;
          continue;
        }
        for (int32_t i = at + 1; i < layout.cut_count; ++i) layout.cuts[i - 1] = layout.cuts[i];
        --layout.cut_count;
        if (random_chance(r, 50)) continue;
        cut = (shoal_cut_t){.axis = axis};
      }
      cut.kind = random_chance(r, 70) && r->shape.rank ? SHOAL_CUT_DIM
                 : random_chance(r, 60)                ? SHOAL_CUT_FLAT
                                                       : SHOAL_CUT_PARTIAL;
      if (cut.kind == SHOAL_CUT_DIM) cut.dim = (int32_t)random_below(r, r->shape.rank);
      if (cut.kind != SHOAL_CUT_PARTIAL && random_chance(r, 30)) {
        random_cut(r, memory, mesh->axes[axis].size, &cut);
      }
      layout.cuts[layout.cut_count++] = cut;
    }
    shoal_status_t status = shoal_layout_check(&layout, &r->shape);
    if (!status) {
      *out = layout;
      return;
    }
    shoal_status_free(status);
  }
}

// Leaves only a tile of both sides, or of the destination alone, where that is allowed.
static void random_tile(random_case_t *r) {
  const shoal_layout_t src = r->src, dst = r->dst;
  shoal_tile_t tile = {.count = (int32_t)(1 + random_below(r, 5))};
  tile.index = (int32_t)random_below(r, tile.count);
  tile.cut.dim = (int32_t)random_below(r, r->shape.rank);
  const int64_t length = r->shape.dims[tile.cut.dim];
  if (random_chance(r, 25)) tile.cut.unit = 1 + random_below(r, 3);
  if (random_chance(r, 60)) {
    tile.cut.chunk_count = (int32_t)(1 + random_below(r, 4));
    for (int32_t i = 0; i < tile.cut.chunk_count && length % tile.cut.chunk_count; ++i)
      tile.cut.chunks[i].length =
          length / tile.cut.chunk_count + (i < length % tile.cut.chunk_count);
  }
  if (random_chance(r, 80)) r->src.tile = tile;
  r->dst.tile = tile;
  shoal_status_t status = shoal_layout_check(&r->src, &r->shape);
  if (!status) status = shoal_layout_check(&r->dst, &r->shape);
  if (!status) return;
  shoal_status_free(status);
  r->src = src;
  r->dst = dst;
}

// The case of a seed; what it points to is in the arena, and the case itself must stay where it is.
static void random_draw(uint64_t seed, int64_t most_ranks, bool plain, shoal_arena_t *memory,
                        random_case_t *r) {
  *r = (random_case_t){
      .seed = seed, .state = seed * UINT64_C(0xD1342543DE82EF95) + 1, .plain = plain};
  r->most_ranks = most_ranks;
  r->most_elements = 600;
  random_meshes(r, memory);
  random_shape(r);
  random_layout(r, memory, &r->meshes[0], NULL, &r->src);
  if (shoal_mesh_equal(&r->meshes[0], &r->meshes[1]) && random_chance(r, 60)) {
    random_change(r, memory, &r->src, &r->dst);
    if (random_chance(r, 50)) {  // and back
      shoal_layout_t swap = r->src;
      r->src = r->dst;
      r->dst = swap;
    }
  } else {
    random_layout(r, memory, &r->meshes[1], random_chance(r, 60) ? &r->src : NULL, &r->dst);
  }
  if (shoal_mesh_equal(&r->meshes[0], &r->meshes[1]) && random_chance(r, 80)) {
    r->dst.mesh = r->src.mesh;
  }
  int64_t micros = r->meshes[0].micro > 1 ? r->meshes[0].micro : 1;
  r->src_micro = r->dst_micro = random_below(r, micros + 1) - 1;
  if (random_chance(r, 10)) r->src_micro = -1;
  if (r->shape.rank > 0 && random_chance(r, 30)) random_tile(r);
}

static const char *random_text(const random_case_t *r, shoal_arena_t *memory) {
  const char *meshes[2] = {"?", "?"}, *layouts[2] = {"?", "?"};
  char shape[200];
  size_t at = 0;
  shape[0] = 0;
  for (int32_t d = 0; d < r->shape.rank; ++d) {
    at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld", d ? "," : "",
                           (long long)r->shape.dims[d]);
  }
  const shoal_layout_t *both[2] = {&r->src, &r->dst};
  for (int i = 0; i < 2; ++i) {
    shoal_status_free(shoal_mesh_print(both[i]->mesh, memory, &meshes[i]));
    shoal_status_free(shoal_layout_print(both[i], memory, &layouts[i]));
  }
  return shoal_arena_printf(
      memory, "seed %llu: '%s' on '%s' (micro %lld) to '%s' on '%s' (micro %lld), shape %s",
      (unsigned long long)r->seed, layouts[0], meshes[0], (long long)r->src_micro, layouts[1],
      meshes[1], (long long)r->dst_micro, shape);
}

#endif  // SHOAL_TESTS_LAYOUT_RANDOM_H_
