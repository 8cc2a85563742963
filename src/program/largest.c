// The largest part of a value: what its buffer is planned at.
#include "base/dtype.h"
#include "program/program_impl.h"
#include "program/sample.h"

static shoal_status_t look_at_samples(const shoal_layout_t *layout, const shoal_shape_t *shape,
                                      const shoal_class_t *class, shoal_arena_t *scratch,
                                      int64_t *out_most) {
  const bool micro = shoal_program_has_micro(layout);
  shoal_cells_of_t value = {.layout = layout, .shape = shape};
  shoal_samples_t samples;
  SHOAL_RETURN_IF_ERROR(
      shoal_sample_values(class, 1, &value, micro ? layout->mesh->micro : 0, scratch, &samples));
  *out_most = 0;
  for (int64_t i = 0; i < samples.count; ++i) {
    shoal_boxes_t boxes;
    SHOAL_RETURN_IF_ERROR(
        shoal_layout_boxes(layout, shape, shoal_mesh_position(layout->mesh, samples.items[i].rank),
                           samples.items[i].micro, scratch, &boxes));
    const shoal_shape_t part = shoal_boxes_shape(&boxes);
    const int64_t count = shoal_shape_count(&part);
    if (count > *out_most) *out_most = count;
  }
  return NULL;
}

shoal_status_t shoal_layout_largest(const shoal_layout_t *layout, const shoal_type_t *type,
                                    const shoal_class_t *class, shoal_allocator_t allocator,
                                    int64_t *out_bytes) {
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  int64_t most = 0;
  shoal_status_t status = look_at_samples(layout, &type->shape, class, &scratch, &most);
  shoal_arena_deinit(&scratch);
  if (!status) status = shoal_dtype_bytes(type->dtype, most, out_bytes);
  return status;
}
