// What bench/halo runs on every rank: a vertical convolution of a grid whose rows are cut over the
// ranks, with the halo exchanged first, or while the interior is computed. One line of JSON per
// round, from rank 0; the same data must come out of both.
//
//   halo_step ROWS COLUMNS KERNEL ROUNDS SAMPLES
#include <shoal/shoal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct grid {
  shoal_world_t *world;
  shoal_group_t *all;
  shoal_primitive_t *halo;  // fills the halo of x in place
  int64_t rows, columns, kernel;
  shoal_interval_t own, held;  // rows of x
  float *x, *y;                // held rows, own rows
} grid_t;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Row r of the output is a weighted sum of KERNEL rows around it; rows outside the grid are zero.
static void convolve(grid_t *g, int64_t from, int64_t to) {
  const int64_t n = g->columns;
  for (int64_t r = from; r < to; ++r) {
    float *out = g->y + (r - g->own.start) * n;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < g->kernel; ++i) {
      const int64_t at = r - g->kernel / 2 + i;
      if (at < 0 || at >= g->rows) continue;
      const float *in = g->x + (at - g->held.start) * n, w = 1.0f / (float)(i + 1);
      for (int64_t c = 0; c < n; ++c) out[c] += w * in[c];
    }
  }
}

static shoal_status_t step(grid_t *g, bool overlap) {
  const int64_t start = g->own.start, end = start + g->own.size, half = g->kernel / 2;
  if (!overlap) {
    SHOAL_RETURN_IF_ERROR(shoal_primitive_apply(g->halo, g->x, g->x));
    convolve(g, start, end);
    return NULL;
  }
  // What needs no row of another rank.
  const int64_t from = start == 0 ? start : start + half, to = end == g->rows ? end : end - half;
  SHOAL_RETURN_IF_ERROR(shoal_primitive_start(g->halo, g->x, g->x));
  convolve(g, from, to);
  SHOAL_RETURN_IF_ERROR(shoal_primitive_wait(g->halo));
  convolve(g, start, from);
  convolve(g, to, end);
  return NULL;
}

enum { OVERLAPPED, PLAIN, EXCHANGE, COMPUTE, WAYS };

static shoal_status_t run_way(grid_t *g, int way) {
  if (way == COMPUTE) {
    convolve(g, g->own.start, g->own.start + g->own.size);
    return NULL;
  }
  return way == EXCHANGE ? shoal_primitive_apply(g->halo, g->x, g->x) : step(g, way == OVERLAPPED);
}

// Seconds of one call, on the slowest rank.
static shoal_status_t measure(grid_t *g, int way, int samples, double *out_seconds) {
  SHOAL_RETURN_IF_ERROR(shoal_barrier(g->all));
  const double start = now();
  for (int i = 0; i < samples; ++i) SHOAL_RETURN_IF_ERROR(run_way(g, way));
  double seconds = (now() - start) / samples;
  return shoal_all_reduce(g->all, SHOAL_F64, SHOAL_REDUCE_MAX, 1, &seconds, out_seconds);
}

static uint64_t hash(const grid_t *g) {
  const unsigned char *data = (const unsigned char *)g->y;
  uint64_t value = 14695981039346656037u;
  for (int64_t i = 0; i < g->own.size * g->columns * (int64_t)sizeof *g->y; ++i) {
    value = (value ^ data[i]) * 1099511628211u;
  }
  return value;
}

static shoal_status_t check(grid_t *g, int32_t *out_differ) {
  uint64_t values[2];
  for (int way = 0; way < 2; ++way) {
    memset(g->y, 0xff, (size_t)(g->own.size * g->columns) * sizeof *g->y);
    SHOAL_RETURN_IF_ERROR(run_way(g, way));
    values[way] = hash(g);
  }
  const int32_t differ = values[0] != values[1];
  SHOAL_RETURN_IF_ERROR(
      shoal_all_reduce(g->all, SHOAL_I32, SHOAL_REDUCE_MAX, 1, &differ, out_differ));
  return NULL;
}

static shoal_status_t make(grid_t *g) {
  SHOAL_RETURN_IF_ERROR(shoal_world_join(NULL, &g->world));
  SHOAL_RETURN_IF_ERROR(shoal_group_create(g->world, shoal_world_size(g->world), NULL, &g->all));
  const shoal_mesh_t mesh = {.axis_count = 1,
                             .axes = {{.name = "x", .size = shoal_world_size(g->world)}}};
  const shoal_cut_t rows = {.axis = 0, .dim = 0, .before = g->kernel / 2, .after = g->kernel / 2};
  const shoal_layout_t cut = {.mesh = &mesh, .cut_count = 1, .cuts = {rows}};
  SHOAL_RETURN_IF_ERROR(shoal_primitive_refresh(
      g->world, SHOAL_F32, &SHOAL_SHAPE(g->rows, g->columns), &cut, NULL, &g->halo));
  const shoal_box_t *own;
  int64_t boxes;
  shoal_primitive_interior(g->halo, &own, &boxes);
  g->own = (shoal_interval_t){own->start[0], own->size[0]};
  g->held.start = g->own.start > rows.before ? g->own.start - rows.before : 0;
  g->held.size = shoal_primitive_dst_shape(g->halo).dims[0];
  void *x, *y;
  SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(g->world, g->held.size * g->columns * 4, &x));
  g->x = x;
  SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(g->world, g->own.size * g->columns * 4, &y));
  g->y = y;
  float *mine = g->x + (g->own.start - g->held.start) * g->columns;
  for (int64_t i = 0; i < g->own.size * g->columns; ++i) {
    mine[i] = (float)((g->own.start * g->columns + i) * 7 % 1013) - 500;
  }
  return NULL;
}

static shoal_status_t run(grid_t *g, int rounds, int samples) {
  static const char *const names[WAYS] = {"overlapped", "plain", "exchange", "compute"};
  const shoal_primitive_stats_t stats = shoal_primitive_stats(g->halo);
  for (int round = 0; round < rounds; ++round) {
    double seconds[WAYS];
    for (int i = 0; i < WAYS; ++i) {  // whoever is first takes turns
      const int way = (i + round) % WAYS;
      SHOAL_RETURN_IF_ERROR(measure(g, way, samples, &seconds[way]));
    }
    if (shoal_world_rank(g->world) != 0) continue;
    printf("{\"backend\": \"%s\", \"recv_bytes\": %lld", shoal_world_backend(g->world),
           (long long)stats.recv_bytes);
    for (int way = 0; way < WAYS; ++way) printf(", \"%s\": %.6f", names[way], seconds[way]);
    printf("}\n");
    fflush(stdout);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: halo_step ROWS COLUMNS KERNEL ROUNDS SAMPLES\n");
    return 2;
  }
  grid_t g = {.rows = atoll(argv[1]), .columns = atoll(argv[2]), .kernel = atoll(argv[3])};
  shoal_status_t status = make(&g);
  int32_t differ = 0;
  if (!status) status = check(&g, &differ);
  if (differ) fprintf(stderr, "halo_step: overlapped and plain differ\n");
  if (!status && !differ) status = run(&g, atoi(argv[4]), atoi(argv[5]));
  shoal_status_print(status, stderr);
  int code = differ ? 1 : shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  if (g.world) {
    shoal_comm_release(g.world, g.x);
    shoal_comm_release(g.world, g.y);
  }
  shoal_primitive_free(g.halo);
  shoal_group_free(g.all);
  shoal_world_release(g.world);
  return code;
}
