// Cluster files: Shoal's own, AutoDist's resource_spec.yml, and presets.
// mutations: 4000
#include "shoal/cluster.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  shoal_arena_t *arena = fuzz_arena();
  const shoal_allocator_t allocator = fuzz_allocator();
  shoal_cluster_t *cluster = NULL, *again = NULL;
  const char *printed, *twice;
  if (fuzz_ok(shoal_cluster_parse("fuzz", fuzz_text(data, size, arena), allocator, &cluster))) {
    const int32_t last = shoal_cluster_ranks(cluster) - 1;
    FUZZ_CHECK(last >= -1, "%d ranks", last + 1);
    (void)shoal_cluster_between(cluster, 0, last < 0 ? 5 : last);
    FUZZ_CHECK(shoal_cluster_device(cluster, last < 0 ? 0 : last), "no device");
    if (fuzz_ok(shoal_cluster_print(cluster, arena, &printed)) &&
        fuzz_again(shoal_cluster_parse("again", printed, allocator, &again), printed) &&
        fuzz_ok(shoal_cluster_print(again, arena, &twice)))
      fuzz_same(printed, twice);
  }
  shoal_cluster_free(again);
  shoal_cluster_free(cluster);
  shoal_arena_free(arena);
  return 0;
}
