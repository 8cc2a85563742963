// A main() for fuzz entries where there is no libFuzzer: runs the entry on every file of the given
// folders and on simple mutations of them, the same ones every time.
//
// Usage: fuzz_NAME MUTATIONS FOLDER...     (of each file; 0: only the files)
//        fuzz_NAME FILE                    one input, as libFuzzer's binaries do
#include <dirent.h>
#include <sys/stat.h>

#include "base/philox.h"
#include "fuzz.h"

enum { MOST = 1 << 20 };

typedef struct input {
  uint8_t *data;
  size_t size;
} input_t;

static uint64_t drawn;

static uint32_t draw(uint64_t below) {
  return (uint32_t)(shoal_philox_word(1, 2, 3, drawn++) % below);
}

static input_t read_input(const char *path) {
  FILE *file = fopen(path, "rb");
  FUZZ_CHECK(file, "cannot read %s", path);
  input_t input = {malloc(MOST), 0};
  input.size = fread(input.data, 1, MOST, file);
  fclose(file);
  return input;
}

// Exactly as large as it is, so that a sanitizer sees a byte too many.
static void run(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  if (size > 0) memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

// One to four edits: bytes changed, pieces removed, doubled or taken from elsewhere, numbers
// replaced by extreme ones.
static size_t mutate(const input_t *input, uint8_t *out) {
  static const char *const words[] = {"0",
                                      "-1",
                                      "9223372036854775807",
                                      "99999999999999999999",
                                      "1e308",
                                      "",
                                      "nan",
                                      "\"",
                                      "[",
                                      "{",
                                      "(",
                                      "\n",
                                      "by_step",
                                      "lane 1",
                                      "{0=0}",
                                      "[0<1.0]"};
  size_t size = input->size;
  memcpy(out, input->data, size);
  for (uint32_t edits = 1 + draw(4); edits > 0; --edits) {
    const size_t at = size ? draw(size) : 0,
                 length = size ? 1 + draw(size - at < 24 ? size - at : 24) : 0;
    const char *word = words[draw(sizeof words / sizeof *words)];
    switch (draw(6)) {
      case 0:
        if (size) out[at] = (uint8_t)draw(256);
        break;
      case 1:
        if (size) out[at] ^= (uint8_t)(1u << draw(8));
        break;
      case 2:
        memmove(out + at, out + at + length, size - at - length);
        size -= length;
        break;
      case 3:
        if (size + length > MOST) break;
        memmove(out + at + length, out + at, size - at);
        size += length;
        break;
      case 4:
        if (size) memmove(out + at, out + draw(size - length + 1), length);
        break;
      case 5: {  // a number, if one follows; else the word is put in
        size_t from = at, to;
        while (from < size && (out[from] < '0' || out[from] > '9')) ++from;
        for (to = from; to < size && out[to] >= '0' && out[to] <= '9';) ++to;
        if (size - (to - from) + strlen(word) > MOST) break;
        memmove(out + from + strlen(word), out + to, size - to);
        memcpy(out + from, word, strlen(word));
        size = size - (to - from) + strlen(word);
        break;
      }
    }
  }
  return size;
}

static int run_folder(const char *folder, long mutations) {
  struct dirent **files;
  const int count = scandir(folder, &files, NULL, alphasort);
  FUZZ_CHECK(count >= 0, "cannot read the folder %s", folder);
  uint8_t *mutant = malloc(2 * MOST);
  int ran = 0;
  for (int i = 0; i < count; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name);
    if (files[i]->d_name[0] != '.') {
      input_t input = read_input(path);
      run(input.data, input.size);
      for (long m = 0; m < mutations; ++m) run(mutant, mutate(&input, mutant));
      free(input.data);
      ++ran;
    }
    free(files[i]);
  }
  free(files);
  free(mutant);
  return ran;
}

int main(int argc, char **argv) {
  struct stat info;
  if (argc == 2 && stat(argv[1], &info) == 0 && S_ISREG(info.st_mode)) {
    input_t input = read_input(argv[1]);
    run(input.data, input.size);
    free(input.data);
    return 0;
  }
  if (argc < 3) {
    fprintf(stderr, "usage: %s MUTATIONS FOLDER... or %s FILE\n", argv[0], argv[0]);
    return 2;
  }
  const long mutations = strtol(argv[1], NULL, 10);
  int seeds = 0;
  for (int i = 2; i < argc; ++i) seeds += run_folder(argv[i], mutations);
  printf("%s: %d seeds, %ld mutations of each\n", argv[0], seeds, mutations);
  return seeds > 0 ? 0 : 1;
}
