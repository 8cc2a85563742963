// config.json of Hugging Face: what is read from it are settings that a model of the zoo can be
// asked for, whether it takes their values or not.
// mutations: 3000
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "shoal/convert.h"
#include "shoal/zoo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const int fd = memfd_create("fuzz", MFD_CLOEXEC);
  FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no file in memory");
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  shoal_arena_t *arena = fuzz_arena();
  const char *model, *settings;
  if (fuzz_ok(shoal_convert_config(path, arena, &model, &settings))) {
    FUZZ_CHECK(shoal_zoo_find(model, NULL), "%s", model);
    shoal_zoo_t *zoo = NULL;
    shoal_status_t status =
        shoal_zoo_create(model, &(shoal_zoo_options_t){.settings = settings}, &zoo);
    FUZZ_CHECK(!status || shoal_status_code(status) == SHOAL_INVALID_ARGUMENT, "%s",
               shoal_status_message(status));
    FUZZ_CHECK(!status || !strstr(shoal_status_message(status), "has no setting"), "%s", settings);
    shoal_status_free(status);
    shoal_zoo_free(zoo);
  }
  shoal_arena_free(arena);
  close(fd);
  return 0;
}
