// Linear maps along every dim by itself: tables of indices and weights, and the loops over them.
#ifndef KERNELS_HERE
#include "op/families/separable.h"

#include "op/families/kernel.h"

// Along each direction, for each element of the part of out: where its taps lie in the part of x
// (or SHOAL_TAP_NONE), and their weights.
typedef struct tables {
  int64_t *index[SHOAL_DIRECTIONS];
  double *weight[SHOAL_DIRECTIONS];
} tables_t;

#define EACH EACH_REAL
#define KERNELS "op/families/separable.c"
#include "op/families/each.h"

int64_t shoal_separable_bytes(const shoal_shape_t *out, const int64_t taps[SHOAL_DIRECTIONS]) {
  int64_t entries = 0;
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i)
    entries += (shoal_window_size(out, i) + 1) * taps[i];
  return shoal_align64(entries * (int64_t)(sizeof(int64_t) + sizeof(double)));
}

double shoal_separable_flops(const shoal_shape_t *out, const int64_t taps[SHOAL_DIRECTIONS]) {
  return 2.0 * (double)shoal_shape_count(out) * (double)(taps[0] * taps[1] * taps[2]);
}

shoal_status_t shoal_separable_shape(const shoal_call_t *call, int32_t attr,
                                     const shoal_shape_t *other, shoal_shape_t *out_shape) {
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, attr, out_shape));
  REQUIRE(call,
          out_shape->rank == other->rank && out_shape->dims[0] == other->dims[0] &&
              out_shape->dims[1] == other->dims[1],
          "shape must be [%lld, %lld] and %d dims more", (long long)other->dims[0],
          (long long)other->dims[1], other->rank - 2);
  return NULL;
}

// The taps of output `o` of the whole, with positions in the part of x. Taps without weight are
// none: nothing has to be held for them.
static void read_taps(const shoal_separable_t *map, int32_t i, int64_t o, int64_t *index,
                      double *weight) {
  const int32_t dim = shoal_window_dim(&map->x.whole, i);
  const int64_t in = shoal_window_size(&map->x.whole, i);
  if (dim < 2) {
    for (int64_t t = 0; t < map->taps[i]; ++t) index[t] = t ? SHOAL_TAP_NONE : 0, weight[t] = !t;
    return;
  }
  map->weights(map->how, i, in, shoal_window_size(&map->out.whole, i), o, index, weight);
  for (int64_t t = 0; t < map->taps[i]; ++t) {
    if (index[t] < 0 || index[t] >= in || weight[t] == 0) {
      index[t] = SHOAL_TAP_NONE;
      continue;
    }
    const int64_t local = shoal_place_local(&map->x, dim, index[t]);
    index[t] = local < 0 ? SHOAL_TAP_MISSING : local;
  }
}

static int64_t global_of(const shoal_place_t *place, int32_t i, int64_t local) {
  const int32_t dim = shoal_window_dim(&place->part, i);
  return dim >= 2 && place->index[dim] ? place->index[dim][local] : local;
}

// Fills the tables; returns the direction in which a tap of the part of out is missing, or -1.
static int32_t fill_tables(const shoal_separable_t *map, void *workspace, tables_t *out) {
  int32_t lacks = -1;
  double *weight = workspace;
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    out->weight[i] = weight;
    weight += (shoal_window_size(&map->out.part, i) + 1) * map->taps[i];
  }
  int64_t *index = (int64_t *)weight;
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const int64_t count = shoal_window_size(&map->out.part, i), taps = map->taps[i];
    out->index[i] = index;
    for (int64_t o = 0; o < count; ++o, index += taps) {
      read_taps(map, i, global_of(&map->out, i, o), index, out->weight[i] + o * taps);
      for (int64_t t = 0; t < taps; ++t) {
        if (index[t] == SHOAL_TAP_MISSING && lacks < 0) lacks = i;
      }
    }
    index += taps;  // room for one output more: see misses_output
  }
  return lacks;
}

static shoal_status_t missing(const shoal_call_t *call, int32_t i, const char *what) {
  static const char *const names[SHOAL_DIRECTIONS] = {"planes", "rows", "columns"};
  return shoal_op_blame(
      call, SHOAL_ERROR(MISMATCH, "needs %s of %s that this part does not hold", names[i], what));
}

// Does an output that the part of dy does not hold see an element of the part of dx?
static bool misses_output(const shoal_separable_t *map, const tables_t *tables, int32_t i) {
  const int32_t dim = shoal_window_dim(&map->out.whole, i);
  const int64_t taps = map->taps[i], scratch = shoal_window_size(&map->out.part, i) * taps;
  if (dim < 2) return false;
  for (int64_t o = 0; o < map->out.whole.dims[dim]; ++o) {
    if (shoal_place_local(&map->out, dim, o) >= 0) continue;
    int64_t *index = tables->index[i] + scratch;
    read_taps(map, i, o, index, tables->weight[i] + scratch);
    for (int64_t t = 0; t < taps; ++t) {
      if (index[t] >= 0) return true;
    }
  }
  return false;
}

shoal_status_t shoal_separable_run(const shoal_call_t *call, const shoal_separable_t *map,
                                   const shoal_tensor_t *from, const shoal_tensor_t *to,
                                   void *workspace) {
  tables_t tables;
  const int32_t lacks = fill_tables(map, workspace, &tables);
  if (lacks >= 0) return missing(call, lacks, "x");
  (from->dtype == SHOAL_F64 ? gather_f64 : gather_f32)(map->taps, &tables, from, to);
  return NULL;
}

shoal_status_t shoal_separable_adjoint(const shoal_call_t *call, const shoal_separable_t *map,
                                       const shoal_tensor_t *dy, const shoal_tensor_t *dx,
                                       void *workspace) {
  tables_t tables;
  fill_tables(map, workspace, &tables);
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    if (misses_output(map, &tables, i)) return missing(call, i, "dy");
  }
  (dy->dtype == SHOAL_F64 ? scatter_f64 : scatter_f32)(map->taps, &tables, dy, dx);
  return NULL;
}

#else  // per element type

// One plane of out, [D,H,W] windows over one of x: `value` gathers, `slope` spreads; one is NULL.
static void K(plane)(const int64_t *taps, const tables_t *tables, const shoal_shape_t *in,
                     const shoal_shape_t *out, const R *x, R *value, const R *slope, R *dx) {
  const int64_t rows = shoal_window_size(in, 1), columns = shoal_window_size(in, 2);
  const int64_t count[SHOAL_DIRECTIONS] = {shoal_window_size(out, 0), shoal_window_size(out, 1),
                                           shoal_window_size(out, 2)};
  for (int64_t at = 0; at < count[0] * count[1] * count[2]; ++at) {
    const int64_t o[SHOAL_DIRECTIONS] = {at / count[2] / count[1], at / count[2] % count[1],
                                         at % count[2]};
    R sum = 0;
    for (int64_t t = 0; t < taps[0] * taps[1]; ++t) {
      const int64_t tz = o[0] * taps[0] + t / taps[1], ty = o[1] * taps[1] + t % taps[1];
      const int64_t z = tables->index[0][tz], y = tables->index[1][ty];
      if (z < 0 || y < 0) continue;
      const R weight = (R)(tables->weight[0][tz] * tables->weight[1][ty]);
      const int64_t line = (z * rows + y) * columns;
      for (int64_t tx = o[2] * taps[2]; tx < (o[2] + 1) * taps[2]; ++tx) {
        const int64_t column = tables->index[2][tx];
        if (column < 0) continue;
        const R factor = weight * (R)tables->weight[2][tx];
        if (x) sum += factor * x[line + column];
        if (dx) dx[line + column] += factor * slope[at];
      }
    }
    if (x) value[at] = sum;
  }
}

static void K(gather)(const int64_t *taps, const tables_t *tables, const shoal_tensor_t *from,
                      const shoal_tensor_t *to) {
  const shoal_shape_t *in = &from->shape, *out = &to->shape;
  const int64_t step = shoal_shape_product(in, 2, in->rank);
  const int64_t out_step = shoal_shape_product(out, 2, out->rank);
  for (int64_t nc = 0; nc < out->dims[0] * out->dims[1]; ++nc) {
    K(plane)
    (taps, tables, in, out, (const R *)from->data + nc * step, (R *)to->data + nc * out_step, NULL,
     NULL);
  }
}

static void K(scatter)(const int64_t *taps, const tables_t *tables, const shoal_tensor_t *dy,
                       const shoal_tensor_t *dx) {
  const shoal_shape_t *in = &dx->shape, *out = &dy->shape;
  const int64_t step = shoal_shape_product(in, 2, in->rank);
  const int64_t out_step = shoal_shape_product(out, 2, out->rank);
  R *to = dx->data;
  for (int64_t i = 0; i < shoal_shape_count(in); ++i) to[i] = 0;
  for (int64_t nc = 0; nc < out->dims[0] * out->dims[1]; ++nc) {
    K(plane)
    (taps, tables, in, out, NULL, NULL, (const R *)dy->data + nc * out_step, to + nc * step);
  }
}

#endif
