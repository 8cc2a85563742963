// Indices of checkpoints of several files, beside two files that are sound. What opens has every
// tensor in exactly one of them.
// mutations: 300
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "run/shards.h"

static char folder[] = "/tmp/shoal_fuzz_index_XXXXXX";

static const char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void write_file(const char *name, const void *data, size_t size) {
  FILE *file = fopen(in_folder(name), "wb");
  FUZZ_CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0, "%s", name);
}

static void remove_all(void) {
  static const char *const names[] = {"a.safetensors", "b.safetensors",
                                      "model.safetensors.index.json"};
  for (int i = 0; i < 3; ++i) unlink(in_folder(names[i]));
  rmdir(folder);
}

static void write_shard(const char *name, const char *tensor) {
  char data[256];
  const int length =
      snprintf(data + 8, sizeof data - 8,
               "{\"%s\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}abc", tensor);
  memset(data, 0, 8);
  data[0] = (char)(length - 3);
  write_file(name, data, (size_t)length + 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool made;
  if (!made) {
    FUZZ_CHECK(mkdtemp(folder), "no folder");
    atexit(remove_all);
    write_shard("a.safetensors", "x");
    write_shard("b.safetensors", "y");
    made = true;
  }
  write_file("model.safetensors.index.json", data, size);
  shoal_arena_t *arena = fuzz_arena();
  shoal_shards_t shards;
  if (fuzz_ok(shoal_shards_open(folder, arena, &shards))) {
    FUZZ_CHECK(shards.count == shards.file_count && shards.count <= 2, "%d", (int)shards.count);
    for (int64_t i = 0; i < shards.count; ++i) {
      FUZZ_CHECK(shoal_shards_find(&shards, shards.tensors[i].tensor->name) == &shards.tensors[i],
                 "%s", shards.tensors[i].tensor->name);
    }
    shoal_shards_close(&shards);
  }
  shoal_arena_free(arena);
  return 0;
}
