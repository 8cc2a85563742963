// The steps of reshards, for the pass `paths`: found once for each type and pair of layouts.
#include "base/status.h"
#include "lower/build.h"
#include "program/key.h"

// The steps that take a value from one layout to another most cheaply, as kept layouts: worked out
// once for each type and pair of layouts. Micro-batches are alike up to sizes: the first decides.
shoal_status_t shoal_lower_path(build_t *b, const instance_t *source, const shoal_layout_t *need,
                                const path_t **out_path) {
  int64_t number;
  shoal_key_clear(&b->path_key);
  shoal_key_add_pointer(&b->path_key, source->layout);
  shoal_key_add_pointer(&b->path_key, need);
  shoal_key_add_type(&b->path_key, &source->type);
  if (!shoal_memo_find(&b->path_memo, &b->path_key, &number)) {
    const int64_t have_micro = shoal_layout_along(source->layout, SHOAL_AXIS_MICRO) ? 0 : -1;
    const int64_t need_micro = shoal_layout_along(need, SHOAL_AXIS_MICRO) ? 0 : -1;
    shoal_reshard_path_t found;
    path_t path;
    SHOAL_RETURN_IF_ERROR(shoal_reshard_path(source->layout, have_micro, need, need_micro,
                                             &source->type.shape, b->arena, &found));
    path.count = found.step_count;
    path.layouts = SHOAL_NEW(b->arena, const shoal_layout_t *, path.count);
    if (!path.layouts) return SHOAL_OOM();
    for (int64_t i = 0; i < path.count; ++i)
      SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&b->layouts, found.steps[i].dst, &path.layouts[i]));
    path.layouts[path.count - 1] = need;
    number = b->paths.count;
    if (!SHOAL_PUSH(b->arena, &b->paths, path) ||
        !shoal_memo_add(&b->path_memo, &b->path_key, number))
      return SHOAL_OOM();
  }
  *out_path = &b->paths.items[number];
  return NULL;
}
