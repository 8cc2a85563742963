// Token files, with a header and without.
// mutations: 2000
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  const int file = fuzz_file(data, size, path);
  fuzz_dataset("tokens", path);
  close(file);
  return 0;
}
