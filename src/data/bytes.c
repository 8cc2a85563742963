// Shuffling without a table: a permutation of [0, n) by a Feistel network whose round function is
// Philox, walked until it lands inside [0, n) (Black & Rogaway, CT-RSA 2002).
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/philox.h"
#include "base/status.h"
#include "shoal/data.h"

enum { ROUNDS = 6 };

struct shoal_bytes {
  shoal_allocator_t allocator;
  shoal_bytes_options_t options;
  int file;
  int64_t size, windows;
  char *path;
  unsigned char *window;  // length + 1 bytes
};

// ---- order ----------------------------------------------------------------------------

static uint64_t round_word(uint64_t seed, int64_t epoch, int round, uint64_t half) {
  const uint32_t counter[4] = {(uint32_t)half, (uint32_t)(half >> 32), (uint32_t)round, 0};
  const uint64_t mixed = seed ^ (uint64_t)epoch * UINT64_C(0x9E3779B97F4A7C15);
  const uint32_t key[2] = {(uint32_t)mixed, (uint32_t)(mixed >> 32)};
  uint32_t words[4];
  shoal_philox4x32(counter, key, words);
  return (uint64_t)words[1] << 32 | words[0];
}

static int64_t permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index) {
  int bits = 1;  // of each half: 4^bits >= count
  while (((int64_t)1 << 2 * bits) < count) ++bits;
  const uint64_t mask = ((uint64_t)1 << bits) - 1;
  uint64_t at = (uint64_t)index;
  do {
    uint64_t left = at >> bits, right = at & mask;
    for (int round = 0; round < ROUNDS; ++round) {
      const uint64_t next = left ^ (round_word(seed, epoch, round, right) & mask);
      left = right;
      right = next;
    }
    at = left << bits | right;
  } while (at >= (uint64_t)count);
  return (int64_t)at;
}

// Where sample n starts.
static int64_t position(const shoal_bytes_t *bytes, int64_t sample) {
  const int64_t epoch = sample / bytes->windows;
  const int64_t spare = bytes->size - 1 - bytes->windows * bytes->options.length;
  const uint64_t word = round_word(bytes->options.seed, epoch, ROUNDS, 0);
  const int64_t shift = (int64_t)(word % (uint64_t)(spare + 1));
  const int64_t window =
      permute(bytes->options.seed, epoch, bytes->windows, sample % bytes->windows);
  return shift + window * bytes->options.length;
}

// ---- the file -------------------------------------------------------------------------

static shoal_status_t failed(const char *path, int error) {
  return shoal_status_format(error == ENOENT ? SHOAL_NOT_FOUND : SHOAL_IO, __FILE__, __LINE__, NULL,
                             "cannot read '%s': %s", path, strerror(error));
}

static shoal_status_t open_file(shoal_bytes_t *bytes) {
  bytes->file = open(bytes->path, O_RDONLY | O_CLOEXEC);
  if (bytes->file < 0) return failed(bytes->path, errno);
  struct stat info;
  if (fstat(bytes->file, &info) != 0) return failed(bytes->path, errno);
  if (!S_ISREG(info.st_mode)) return failed(bytes->path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  bytes->size = (int64_t)info.st_size;
  bytes->windows = (bytes->size - 1) / bytes->options.length;
  if (bytes->size > bytes->options.length) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use a longer text or a shorter sequence",
                          "'%s' has %lld bytes; sequences of %lld need at least %lld", bytes->path,
                          (long long)bytes->size, (long long)bytes->options.length,
                          (long long)bytes->options.length + 1);
}

shoal_status_t shoal_bytes_open(const char *path, const shoal_bytes_options_t *options,
                                shoal_bytes_t **out_bytes) {
  *out_bytes = NULL;
  if (options->batch < 1 || options->length < 1 || options->length > INT32_MAX) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "batches of %lld sequences of %lld",
                       (long long)options->batch, (long long)options->length);
  }
  shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  const size_t path_size = strlen(path) + 1, window_size = (size_t)options->length + 1;
  shoal_bytes_t *bytes = allocator.alloc(allocator.self, sizeof *bytes + path_size + window_size);
  if (!bytes) return SHOAL_OOM();
  *bytes = (shoal_bytes_t){.allocator = allocator, .options = *options, .file = -1};
  bytes->path = memcpy(bytes + 1, path, path_size);
  bytes->window = (unsigned char *)bytes->path + path_size;
  shoal_status_t status = open_file(bytes);
  if (status) {
    shoal_bytes_close(bytes);
    return status;
  }
  *out_bytes = bytes;
  return NULL;
}

void shoal_bytes_close(shoal_bytes_t *bytes) {
  if (!bytes) return;
  if (bytes->file >= 0) close(bytes->file);
  bytes->allocator.free(bytes->allocator.self, bytes);
}

int64_t shoal_bytes_size(const shoal_bytes_t *bytes) {
  return bytes->size;
}

int64_t shoal_bytes_windows(const shoal_bytes_t *bytes) {
  return bytes->windows;
}

static shoal_status_t read_window(shoal_bytes_t *bytes, int64_t at) {
  const int64_t size = bytes->options.length + 1;
  for (int64_t done = 0; done < size;) {
    ssize_t got =
        pread(bytes->file, bytes->window + done, (size_t)(size - done), (off_t)(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(bytes->path, errno);
    if (got == 0) return SHOAL_ERROR(IO, "'%s' has become shorter", bytes->path);
    done += got;
  }
  return NULL;
}

shoal_status_t shoal_bytes_batch(shoal_bytes_t *bytes, int64_t cursor, int32_t *out_ids,
                                 int32_t *out_labels) {
  const int64_t length = bytes->options.length;
  if (cursor < 0 || cursor > INT64_MAX - bytes->options.batch) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a cursor of %lld", (long long)cursor);
  }
  for (int64_t b = 0; b < bytes->options.batch; ++b) {
    SHOAL_RETURN_IF_ERROR(read_window(bytes, position(bytes, cursor + b)));
    for (int64_t t = 0; t < length; ++t) {
      out_ids[b * length + t] = bytes->window[t];
      out_labels[b * length + t] = bytes->window[t + 1];
    }
  }
  return NULL;
}
