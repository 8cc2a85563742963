// `shoal tokenize FILE... --tokenizer PATH -o OUT.bin`: texts to a token file, and back (--decode).
//
// A token file is a header of 256 little-endian i32 (20240520, 1, count; or 20240801, 7, count),
// then the ids as u16, or u32 where the vocabulary is larger: the format of Karpathy's C trainer.
// --raw leaves the header out, as nanoGPT does.
#include <errno.h>
#include <string.h>

#include "cli.h"
#include "planning.h"
#include "print.h"
#include "shoal/options.h"
#include "shoal/tokenizer.h"

typedef struct tokenize_options {
  const char *tokenizer, *output;
  bool decode, special_as_text, end, raw, help;
} tokenize_options_t;

static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(tokenize_options_t, STRING, tokenizer, "bytes",
                 "tokenizer.json, a folder with it or with vocab.json and merges.txt, or bytes",
                 .argument = "FILE"),
    SHOAL_OPTION(tokenize_options_t, STRING, output, NULL, "file to write", .argument = "FILE",
                 .letter = 'o', .no_environment = true),
    SHOAL_OPTION(tokenize_options_t, BOOL, decode, NULL, "from a token file to text",
                 .no_environment = true),
    SHOAL_OPTION(tokenize_options_t, BOOL, special_as_text, NULL,
                 "special tokens that stand in the text are plain text", .no_environment = true),
    SHOAL_OPTION(tokenize_options_t, BOOL, end, NULL, "the end-of-text token behind every file",
                 .no_environment = true),
    SHOAL_OPTION(tokenize_options_t, BOOL, raw, NULL, "token files have no header",
                 .no_environment = true),
    SHOAL_OPTION(tokenize_options_t, BOOL, help, NULL, "say what the options are", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };
enum { HEADER = 256, MAGIC_U16 = 20240520, MAGIC_U32 = 20240801 };
enum { CHUNK = 4 << 20 };  // bytes of text, and tokens, that are read at a time

typedef struct job {
  const tokenize_options_t *options;
  shoal_tokenizer_t *tokenizer;
  const char *path;  // of what is written
  FILE *file;
  int width;  // bytes of a token
  int64_t tokens, bytes;
} job_t;

static shoal_status_t failed(const char *what, const char *path) {
  return SHOAL_ERROR(IO, "cannot %s '%s': %s", what, path, strerror(errno));
}

static shoal_status_t put(job_t *job, const void *data, size_t size) {
  return fwrite(data, 1, size, job->file) == size ? NULL : failed("write", job->path);
}

// ---- to tokens ----------------------------------------------------------------------------------

static void store(unsigned char *at, int64_t value, int width) {
  for (int i = 0; i < width; ++i) at[i] = (unsigned char)((uint64_t)value >> 8 * i);
}

static shoal_status_t put_ids(job_t *job, const int32_t *ids, int64_t count) {
  unsigned char block[4096];
  size_t used = 0;
  for (int64_t i = 0; i < count; ++i) {
    store(block + used, ids[i], job->width);
    used += (size_t)job->width;
    if (used == sizeof block || i + 1 == count) {
      SHOAL_RETURN_IF_ERROR(put(job, block, used));
      used = 0;
    }
  }
  job->tokens += count;
  return NULL;
}

static shoal_status_t put_header(job_t *job) {
  unsigned char header[4 * HEADER] = {0};
  if (job->options->raw) return NULL;
  if (job->tokens > INT32_MAX) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "--raw leaves the header out",
                            "%lld tokens: a header counts up to %d", (long long)job->tokens,
                            INT32_MAX);
  }
  store(header, job->width == 2 ? MAGIC_U16 : MAGIC_U32, 4);
  store(header + 4, job->width == 2 ? 1 : 7, 4);
  store(header + 8, job->tokens, 4);
  return put(job, header, sizeof header);
}

static shoal_status_t encode(job_t *job, const char *text, int64_t length) {
  const int32_t *ids;
  int64_t count;
  const shoal_encode_options_t options = {.special_as_text = job->options->special_as_text};
  SHOAL_RETURN_IF_ERROR(
      shoal_tokenizer_encode(job->tokenizer, text, length, &options, &ids, &count));
  return put_ids(job, ids, count);
}

typedef struct text {
  shoal_allocator_t allocator;
  char *data;
  int64_t length, capacity;
} text_t;

// Reads on behind what is there; a text that is full grows.
static shoal_status_t read_more(FILE *in, const char *path, text_t *text) {
  if (text->length == text->capacity) {
    const int64_t capacity = text->capacity ? 2 * text->capacity : CHUNK;
    char *data = text->allocator.alloc(text->allocator.self, (size_t)capacity);
    if (!data) return SHOAL_OOM();
    if (text->length) memcpy(data, text->data, (size_t)text->length);
    text->allocator.free(text->allocator.self, text->data);
    text->data = data;
    text->capacity = capacity;
  }
  text->length +=
      (int64_t)fread(text->data + text->length, 1, (size_t)(text->capacity - text->length), in);
  return ferror(in) ? failed("read", path) : NULL;
}

static shoal_status_t tokenize_stream(job_t *job, FILE *in, const char *path, text_t *text) {
  while (!feof(in)) {
    SHOAL_RETURN_IF_ERROR(read_more(in, path, text));
    const int64_t cut =
        feof(in) ? text->length : shoal_tokenizer_cut(job->tokenizer, text->data, text->length);
    if (cut == 0) continue;
    SHOAL_RETURN_IF_ERROR(encode(job, text->data, cut));
    job->bytes += cut;
    text->length -= cut;
    memmove(text->data, text->data + cut, (size_t)text->length);
  }
  return NULL;
}

static shoal_status_t tokenize_file(job_t *job, const char *path) {
  const bool standard = strcmp(path, "-") == 0;
  FILE *in = standard ? stdin : fopen(path, "rb");
  if (!in) return failed("read", path);
  text_t text = {.allocator = shoal_allocator_system()};
  shoal_status_t status = tokenize_stream(job, in, path, &text);
  text.allocator.free(text.allocator.self, text.data);
  if (!standard) fclose(in);
  const int32_t end = shoal_tokenizer_end(job->tokenizer);
  return !status && job->options->end ? put_ids(job, &end, 1) : status;
}

// ---- to text ------------------------------------------------------------------------------------

static int64_t load(const unsigned char *at, int width) {
  uint64_t value = 0;
  for (int i = 0; i < width; ++i) value |= (uint64_t)at[i] << 8 * i;
  return (int64_t)value;
}

// The width of tokens by the header, behind which the file then stands.
static shoal_status_t read_header(job_t *job, FILE *in, const char *path) {
  unsigned char header[4 * HEADER];
  if (job->options->raw) return NULL;
  const bool there = fread(header, 1, sizeof header, in) == sizeof header;
  const int64_t magic = there ? load(header, 4) : 0, version = there ? load(header + 4, 4) : 0;
  if ((magic != MAGIC_U16 || version != 1) && (magic != MAGIC_U32 || version != 7)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--raw reads tokens without a header",
                            "'%s' is no token file: it has no header", path);
  }
  job->width = magic == MAGIC_U16 ? 2 : 4;
  return NULL;
}

static shoal_status_t decode_stream(job_t *job, FILE *in, const char *path,
                                    shoal_decoder_t *decoder) {
  unsigned char block[4096];
  const char *text;
  int64_t length;
  for (size_t got; (got = fread(block, 1, sizeof block, in)) > 0;) {
    if (got % (size_t)job->width)
      return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' ends inside a token: it is cut short", path);
    for (size_t at = 0; at < got; at += (size_t)job->width) {
      const int64_t id = load(block + at, job->width);
      SHOAL_RETURN_IF_ERROR(
          shoal_decoder_add(decoder, id > INT32_MAX ? -1 : (int32_t)id, &text, &length));
      SHOAL_RETURN_IF_ERROR(put(job, text, (size_t)length));
      job->bytes += length;
      ++job->tokens;
    }
  }
  if (ferror(in)) return failed("read", path);
  SHOAL_RETURN_IF_ERROR(shoal_decoder_finish(decoder, &text, &length));
  job->bytes += length;
  return put(job, text, (size_t)length);
}

// Bytes as they were: what is no UTF-8 comes back as it was too.
static shoal_status_t decode_file(job_t *job, const char *path) {
  FILE *in = fopen(path, "rb");
  if (!in) return failed("read", path);
  shoal_decoder_t *decoder = NULL;
  shoal_status_t status = read_header(job, in, path);
  if (!status)
    status =
        shoal_decoder_create(job->tokenizer, &(shoal_decode_options_t){.bytes = true}, &decoder);
  if (!status) status = decode_stream(job, in, path, decoder);
  shoal_decoder_free(decoder);
  fclose(in);
  return status;
}

// ---- the command --------------------------------------------------------------------------------

// What is written appears under its name when it is complete.
static shoal_status_t convert(job_t *job, const shoal_words_t *words, const char *temporary) {
  if (!job->options->decode) SHOAL_RETURN_IF_ERROR(put_header(job));
  for (int64_t i = 0; i < words->count; ++i) {
    SHOAL_RETURN_IF_ERROR(job->options->decode ? decode_file(job, words->items[i])
                                               : tokenize_file(job, words->items[i]));
  }
  if (!job->options->decode) {
    rewind(job->file);
    SHOAL_RETURN_IF_ERROR(put_header(job));
  }
  FILE *file = job->file;
  job->file = NULL;
  if (fclose(file) != 0) return failed("write", job->path);
  return rename(temporary, job->path) == 0 ? NULL : failed("write", job->path);
}

static shoal_status_t run_job(job_t *job, const shoal_words_t *words, shoal_arena_t *arena,
                              FILE *out) {
  const tokenize_options_t *options = job->options;
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_open(options->tokenizer, NULL, &job->tokenizer));
  const int64_t size = shoal_tokenizer_size(job->tokenizer);
  job->width = size <= 65536 ? 2 : 4;
  if (options->end && shoal_tokenizer_end(job->tokenizer) < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "tokenizer '%s' has no token that ends a text",
                       options->tokenizer);
  }
  const char *temporary = cli_format(arena, "%s.part", job->path);
  if (!temporary) return SHOAL_OOM();
  for (int64_t i = 0; i < words->count; ++i)
    SHOAL_RETURN_IF_ERROR(cli_check_apart(words->items[i], job->path));
  SHOAL_RETURN_IF_ERROR(cli_check_apart(options->tokenizer, job->path));
  job->file = fopen(temporary, "wb");
  if (!job->file) return failed("write", temporary);
  shoal_status_t status = convert(job, words, temporary);
  if (job->file) fclose(job->file);
  if (status) {
    remove(temporary);
    return status;
  }
  fprintf(out, "%s: %lld tokens of %d bytes, vocabulary %lld, %lld bytes of text (%.2f a token)\n",
          job->path, (long long)job->tokens, job->width, (long long)size, (long long)job->bytes,
          job->tokens ? (double)job->bytes / (double)job->tokens : 0.0);
  return NULL;
}

shoal_status_t cli_tokenize(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  tokenize_options_t options = {0};
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(cli_options("tokenize", "FILE... -o OUT", OPTIONS, OPTION_COUNT, argc, argv,
                                    arena, &options, &words, out));
  if (options.help) return NULL;
  if (!words.count || !options.output) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "shoal tokenize text.txt --tokenizer gpt2/ -o tokens.bin", "which %s?",
                            words.count ? "file is to be written" : "text");
  }
  job_t job = {.options = &options, .path = options.output};
  shoal_status_t status = run_job(&job, &words, arena, out);
  shoal_tokenizer_free(job.tokenizer);
  return status;
}
