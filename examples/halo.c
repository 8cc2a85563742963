// A convolution over a line that is cut over all ranks, forward and backward, with the primitives
// of shoal/primitive.h: halo exchange, and a sum over the ranks. It prints the same on any number
// of them:
//
//   ./halo        shoal run -n 5 -- ./halo
#include <shoal/shoal.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 1000, KERNEL = 5, STRIDE = 2, PADDING = 2 };
static const double weights[KERNEL] = {1, -2, 3, -1, 0.5};

typedef struct line {
  shoal_primitive_t *halo, *sum;
  shoal_stencil_t window;
  shoal_stencil_part_t part;       // what this rank computes, needs and owns
  double x[SIZE], dx[SIZE];        // what it owns, and the gradient of it
  double near[SIZE], dnear[SIZE];  // what it needs, and the gradient of that
  double y[SIZE];                  // what it computes
} line_t;

// Output j reads inputs j * STRIDE - PADDING + i; those outside the line are zero.
static void convolve(line_t *l, shoal_interval_t outputs) {
  for (int64_t j = outputs.start; j < outputs.start + outputs.size; ++j) {
    double sum = 0;
    for (int i = 0; i < KERNEL; ++i) {
      const int64_t at = j * STRIDE - PADDING + i;
      if (at >= 0 && at < SIZE) sum += weights[i] * l->near[at - l->part.needed.start];
    }
    l->y[j - l->part.output.start] = sum;
  }
}

static void convolve_backward(line_t *l) {
  memset(l->dnear, 0, sizeof l->dnear);
  for (int64_t k = 0; k < l->part.output.size; ++k) {
    for (int i = 0; i < KERNEL; ++i) {
      const int64_t at = (l->part.output.start + k) * STRIDE - PADDING + i;
      if (at < 0 || at >= SIZE) continue;
      l->dnear[at - l->part.needed.start] += 2 * l->y[k] * weights[i];  // of the sum of squares
    }
  }
}

static shoal_status_t plan(shoal_world_t *world, line_t *l) {
  const shoal_mesh_t mesh = {.axis_count = 1,
                             .axes = {{.name = "x", .size = shoal_world_size(world)}}};
  const shoal_layout_t cut = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  const shoal_layout_t copies = {.mesh = &mesh};
  const shoal_shape_t line = SHOAL_SHAPE(SIZE), number = SHOAL_SHAPE(2);
  l->window =
      (shoal_stencil_t){.kernel = KERNEL, .stride = STRIDE, .before = PADDING, .after = PADDING};
  SHOAL_RETURN_IF_ERROR(
      shoal_primitive_halo(world, SHOAL_F64, &line, &cut, &l->window, NULL, &l->halo));
  l->part = shoal_primitive_stencil(l->halo, 0);
  return shoal_primitive_sum_reduce(world, SHOAL_F64, &number, &copies, "x", NULL, &l->sum);
}

static shoal_status_t step(line_t *l, double sums[2]) {
  // Forward: while the halo is under way, the outputs that need nothing of it.
  SHOAL_RETURN_IF_ERROR(shoal_primitive_start(l->halo, l->x, l->near));
  const shoal_interval_t inner = shoal_stencil_inner(&l->window, SIZE, &l->part),
                         all = l->part.output;
  convolve(l, inner);
  SHOAL_RETURN_IF_ERROR(shoal_primitive_wait(l->halo));
  convolve(l, (shoal_interval_t){all.start, inner.start - all.start});
  convolve(l, (shoal_interval_t){inner.start + inner.size,
                                 all.start + all.size - inner.start - inner.size});
  // Backward: what lies in a halo goes to its owner.
  convolve_backward(l);
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply_adjoint(l->halo, l->dnear, l->dx));
  double mine[2] = {0, 0};
  for (int64_t k = 0; k < l->part.output.size; ++k) mine[0] += l->y[k] * l->y[k];
  for (int64_t k = 0; k < l->part.owned.size; ++k) {
    mine[1] += l->dx[k] * (double)(l->part.owned.start + k);
  }
  return shoal_primitive_apply(l->sum, mine, sums);
}

int main(void) {
  static line_t l;
  shoal_world_t *world = NULL;
  double sums[2] = {0, 0};
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_world_join(NULL, &world));
  SHOAL_GOTO_IF_ERROR(status, done, plan(world, &l));
  for (int64_t k = 0; k < l.part.owned.size; ++k) {
    l.x[k] = (double)((l.part.owned.start + k) * 7 % 13 - 6);
  }
  SHOAL_GOTO_IF_ERROR(status, done, step(&l, sums));
  if (shoal_world_rank(world) == 0)
    printf("loss %.1f, moment of its gradient %.1f\n", sums[0], sums[1]);
done:
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_primitive_free(l.halo);
  shoal_primitive_free(l.sum);
  shoal_world_release(world);
  return code;
}
