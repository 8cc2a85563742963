// Layouts: a line with a mesh, one with lengths of dims, then the layout. What is meaningful for
// the shape gives every rank its part, and parts can be moved.
// mutations: 6000
#include "shoal/layout.h"
#include "fuzz.h"

static shoal_shape_t read_shape(const char *text) {
  shoal_shape_t shape = {0};
  while (shape.rank < 4 && *text) {
    char *end;
    const long length = strtol(text, &end, 10);
    if (end == text) break;
    shape.dims[shape.rank++] = length < 0 ? 0 : length > 64 ? 64 : length;
    text = end + strspn(end, ", ");
  }
  return shape;
}

static void use(const shoal_layout_t *layout, const shoal_shape_t *shape, shoal_arena_t *arena) {
  if (shoal_mesh_size(layout->mesh) > 64 || !fuzz_ok(shoal_layout_check(layout, shape))) return;
  const int64_t micros = layout->mesh->micro > 1 ? layout->mesh->micro : 1;
  for (int64_t p = 0; p < shoal_mesh_size(layout->mesh); ++p) {
    shoal_boxes_t boxes;
    const shoal_box_t *list;
    int64_t count;
    for (int64_t m = 0; m < micros && m < 4; ++m) {
      if (!fuzz_ok(shoal_layout_boxes(layout, shape, p, m, arena, &boxes))) return;
      if (!fuzz_ok(shoal_boxes_list(&boxes, arena, &list, &count))) return;
      for (int32_t d = 0; d < shape->rank; ++d)
        FUZZ_CHECK(boxes.dims[d].own_size <= shape->dims[d], "a part is larger than the whole");
    }
  }
  const shoal_layout_t whole = {.mesh = layout->mesh};
  shoal_reshard_t reshard;
  fuzz_ok(shoal_layout_reshard(layout, -1, &whole, -1, shape, arena, &reshard));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  shoal_arena_t *arena = fuzz_arena();
  char *mesh_text = fuzz_text(data, size, arena), *shape_text = fuzz_cut_line(mesh_text);
  char *text = fuzz_cut_line(shape_text);
  const shoal_shape_t shape = read_shape(shape_text);
  shoal_mesh_t mesh;
  shoal_layout_t layout, again;
  const char *printed, *twice;
  if (fuzz_ok(shoal_mesh_parse(mesh_text, arena, &mesh)) &&
      fuzz_ok(shoal_layout_parse(text, &mesh, 1, arena, &layout)) &&
      fuzz_ok(shoal_layout_print(&layout, arena, &printed)) &&
      fuzz_again(shoal_layout_parse(printed, &mesh, 1, arena, &again), printed) &&
      fuzz_ok(shoal_layout_print(&again, arena, &twice))) {
    fuzz_same(printed, twice);
    FUZZ_CHECK(shoal_layout_equal(&layout, &again), "%s", printed);
    use(&layout, &shape, arena);
  }
  shoal_arena_free(arena);
  return 0;
}
