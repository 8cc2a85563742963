// Meshes: "name!data=2,tensor=4,micro=3@0-7".
// mutations: 20000
#include "fuzz.h"
#include "shoal/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  shoal_arena_t *arena = fuzz_arena();
  shoal_mesh_t mesh, again;
  const char *printed, *twice;
  if (fuzz_ok(shoal_mesh_parse(fuzz_text(data, size, arena), arena, &mesh)) &&
      fuzz_ok(shoal_mesh_print(&mesh, arena, &printed)) &&
      fuzz_again(shoal_mesh_parse(printed, arena, &again), printed) &&
      fuzz_ok(shoal_mesh_print(&again, arena, &twice))) {
    fuzz_same(printed, twice);
    FUZZ_CHECK(shoal_mesh_equal(&mesh, &again), "%s", printed);
    const int64_t ranks = shoal_mesh_size(&mesh), last = ranks - 1;
    if (ranks > 0)
      FUZZ_CHECK(shoal_mesh_position(&mesh, shoal_mesh_rank(&mesh, last)) == last, "%s", printed);
  }
  shoal_arena_free(arena);
  return 0;
}
