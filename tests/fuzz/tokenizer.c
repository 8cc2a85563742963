// tokenizer.json: what opens encodes any bytes, its own text among them, and decodes what it gave,
// at once and one by one alike. Lines of metrics too, which anybody may have written.
// mutations: 400
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "shoal/metrics.h"
#include "shoal/tokenizer.h"

static void check_text(shoal_tokenizer_t *tokenizer, const char *text, int64_t length) {
  const int32_t *borrowed;
  const char *whole, *piece;
  int64_t count, whole_length, piece_length, at = 0;
  const shoal_encode_options_t options = {.add_special = length % 2,
                                          .special_as_text = length % 3 == 0};
  if (!fuzz_ok(shoal_tokenizer_encode(tokenizer, text, length, &options, &borrowed, &count)))
    return;
  const int64_t size = shoal_tokenizer_size(tokenizer);
  for (int64_t i = 0; i < count; ++i)
    FUZZ_CHECK(borrowed[i] >= 0 && borrowed[i] < size, "id %d", borrowed[i]);
  const int64_t cut = shoal_tokenizer_cut(tokenizer, text, length);
  FUZZ_CHECK(cut >= 0 && (cut < length || length == 0), "cut at %lld", (long long)cut);
  if (!fuzz_ok(shoal_tokenizer_decode(tokenizer, borrowed, count, NULL, &whole, &whole_length)))
    return;
  shoal_decoder_t *decoder = NULL;
  if (!fuzz_ok(shoal_decoder_create(tokenizer, NULL, &decoder))) return;
  for (int64_t i = 0; i <= count; ++i) {
    if (!fuzz_ok(i < count ? shoal_decoder_add(decoder, borrowed[i], &piece, &piece_length)
                           : shoal_decoder_finish(decoder, &piece, &piece_length)))
      break;
    FUZZ_CHECK(
        piece_length <= whole_length - at && memcmp(whole + at, piece, (size_t)piece_length) == 0,
        "streamed otherwise at %lld", (long long)at);
    at += piece_length;
  }
  shoal_decoder_free(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  shoal_arena_t *arena = fuzz_arena();
  const int file = memfd_create("tokenizer", MFD_CLOEXEC);
  FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size, "no memory file");
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  shoal_tokenizer_t *tokenizer = NULL;
  const shoal_tokenizer_options_t options = {.allocator = fuzz_allocator()};
  if (fuzz_ok(shoal_tokenizer_open(path, &options, &tokenizer))) {
    check_text(tokenizer, (const char *)data, (int64_t)size);
    static const char mixed[] = " ab  é日 12345 I'll\r\n\xFF\xE2\x96\x81<s> <|endoftext|>";
    for (int64_t length = 0; length < (int64_t)sizeof mixed; length += 5)
      check_text(tokenizer, mixed, length);
  }
  shoal_tokenizer_free(tokenizer);
  shoal_curves_t curves;
  const char *svg;
  if (fuzz_ok(shoal_metrics_read(path, arena, &curves)))
    fuzz_ok(shoal_plot_svg(&(shoal_plot_t){.runs = &curves, .run_count = 1, .smooth = 0.5}, arena,
                           &svg));
  close(file);
  shoal_arena_free(arena);
  return 0;
}
