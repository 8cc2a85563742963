// safetensors files: length, header, data. What opens has tensors that lie inside the file.
// mutations: 6000
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "run/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const int fd = memfd_create("fuzz", MFD_CLOEXEC);
  FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no file in memory");
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  shoal_arena_t *arena = fuzz_arena();
  shoal_safetensors_t file;
  if (fuzz_ok(shoal_safetensors_open(path, arena, &file))) {
    for (int64_t i = 0; i < file.count; ++i) {
      const shoal_safetensor_t *tensor = &file.tensors[i];
      const int64_t bytes = tensor->end - tensor->begin;
      FUZZ_CHECK(bytes >= 0 && tensor->begin >= 0 && tensor->end <= (int64_t)size, "%s",
                 tensor->name);
      void *values = SHOAL_NEW(arena, char, bytes);
      FUZZ_CHECK(values, "no memory");
      FUZZ_CHECK(fuzz_ok(shoal_safetensors_read(&file, tensor->begin, bytes, values)), "%s",
                 tensor->name);
      FUZZ_CHECK(shoal_safetensors_find(&file, tensor->name), "%s", tensor->name);
    }
    shoal_safetensors_close(&file);
  }
  shoal_arena_free(arena);
  close(fd);
  return 0;
}
