// Which elements of a state a rank owns. See owned.h.
#include "run/owned.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/type.h"
#include "program/program_impl.h"
#include "run/states.h"

enum { FEWEST = 16384 };  // elements that are worth another rank's write

// ---- the layout -----------------------------------------------------------------------

// Without partial sums and halos. Returns whether anything changed.
static bool clean(const shoal_layout_t *from, shoal_layout_t *to) {
  bool changed = false;
  *to = *from;
  to->cut_count = 0;
  for (int32_t i = 0; i < from->cut_count; ++i) {
    shoal_cut_t cut = from->cuts[i];
    if (cut.kind == SHOAL_CUT_PARTIAL) {
      changed = true;
      continue;
    }
    changed |= cut.before != 0 || cut.after != 0;
    cut.before = cut.after = 0;
    to->cuts[to->cut_count++] = cut;
  }
  return changed;
}

// Of the ranks that hold the same part, which one this is, and how many there are.
static void find_replicas(const shoal_layout_t *layout, int64_t position, int64_t *out_index,
                          int64_t *out_count) {
  int64_t coords[SHOAL_MAX_AXES];
  shoal_mesh_coords(layout->mesh, position, coords);
  *out_index = 0;
  *out_count = 1;
  for (int32_t k = 0; k < layout->mesh->axis_count; ++k) {
    if (shoal_layout_along(layout, k)) continue;
    *out_index = *out_index * layout->mesh->axes[k].size + coords[k];
    *out_count *= layout->mesh->axes[k].size;
  }
}

// Small parts go to one of the replicas, not always the same.
static void deal(int64_t count, int64_t replicas, int64_t index, int64_t *out_from,
                 int64_t *out_to) {
  int64_t share = (count + replicas - 1) / replicas;
  if (share < FEWEST) share = FEWEST;
  *out_from = index > count / share ? count : index * share;
  *out_to = count - *out_from < share ? count : *out_from + share;
}

shoal_status_t shoal_owned_find(const shoal_runner_t *runner, int64_t state, shoal_arena_t *arena,
                                shoal_owned_t *out_owned) {
  const shoal_program_state_t *info = &runner->program->states[state];
  *out_owned = (shoal_owned_t){0};
  out_owned->moves = clean(info->layout, &out_owned->layout);
  const shoal_layout_t *layout = &out_owned->layout;
  const int64_t position = shoal_mesh_position(layout->mesh, runner->rank);
  if (position < 0) return NULL;
  shoal_bound_buffer_t part = {.type.dtype = info->type.dtype, .offset = -1};
  SHOAL_RETURN_IF_ERROR(
      shoal_layout_boxes(layout, &info->type.shape, position, -1, arena, &part.boxes));
  part.type.shape = shoal_boxes_shape(&part.boxes);
  part.count = shoal_shape_count(&part.type.shape);
  if (part.count == 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_run_layout_pieces(runner, state, layout, &part, arena,
                                                &out_owned->piece_count, &out_owned->pieces));
  out_owned->part_count = part.count;
  int64_t index, replicas;
  find_replicas(layout, position, &index, &replicas);
  deal(part.count, replicas, (index + state) % replicas, &out_owned->from, &out_owned->to);
  return NULL;
}

// ---- reading --------------------------------------------------------------------------

shoal_status_t shoal_owned_read(shoal_runner_t *runner, int64_t state, const shoal_owned_t *owned,
                                shoal_arena_t *arena, void *out_part) {
  if (owned->moves) return shoal_run_state_reshard(runner, state, &owned->layout, out_part);
  shoal_run_state_part_t rest;
  if (owned->part_count == 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_run_state_find(runner, state, arena, &rest.part));
  const int64_t bytes =
      rest.part.count * (int64_t)shoal_dtype_size(runner->program->states[state].type.dtype);
  return shoal_run_part_read(runner, &rest.part, bytes, out_part);
}

// ---- walking --------------------------------------------------------------------------

typedef struct walk {
  int64_t from, to, at;  // elements of the walk; `at` have been passed
  int64_t whole, part, count;
  shoal_owned_fn_t fn;
  void *self;
  shoal_status_t status;
} walk_t;

static void flush(walk_t *walk) {
  if (walk->count > 0 && !walk->status)
    walk->status = walk->fn(walk->self, walk->whole, walk->part, walk->count);
  walk->count = 0;
}

// A dense run; one that goes on where the last ended is joined to it.
static void add_run(walk_t *walk, int64_t whole, int64_t part, int64_t count) {
  const int64_t skipped = walk->from > walk->at ? walk->from - walk->at : 0;
  const int64_t left = walk->to - walk->at;
  walk->at += count;
  if (count > left) count = left;
  if (skipped >= count) return;
  whole += skipped;
  part += skipped;
  count -= skipped;
  if (whole != walk->whole + walk->count || part != walk->part + walk->count) flush(walk);
  if (walk->count == 0) {
    walk->whole = whole;
    walk->part = part;
  }
  walk->count += count;
}

static void add_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                    int64_t dst_stride) {
  walk_t *walk = self;
  if (walk->status || walk->at >= walk->to) return;
  if (src_stride == 1 && dst_stride == 1) {
    add_run(walk, src, dst, count);
    return;
  }
  for (int64_t i = 0; i < count; ++i) add_run(walk, src + i * src_stride, dst + i * dst_stride, 1);
}

shoal_status_t shoal_owned_walk(int64_t piece_count, const shoal_piece_t *pieces, int64_t from,
                                int64_t to, shoal_owned_fn_t fn, void *self) {
  walk_t walk = {.from = from, .to = to, .fn = fn, .self = self};
  for (int64_t i = 0; i < piece_count && !walk.status; ++i)
    shoal_piece_rows(&pieces[i], add_row, &walk);
  flush(&walk);
  return walk.status;
}
