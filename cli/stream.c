// See stream.h.
#include "stream.h"

#include <string.h>

struct cli_stream_kept {
  int32_t *ids;
  int64_t count, capacity;
  bool ended;
};

static shoal_status_t keep(cli_stream_t *stream, int64_t prompt, int32_t token, bool last) {
  if (!stream->kept)
    stream->kept = SHOAL_NEW(stream->arena, cli_stream_kept_t, stream->prompt_count);
  if (!stream->kept) return SHOAL_OOM();
  cli_stream_kept_t *kept = &stream->kept[prompt];
  if (kept->count == kept->capacity) {
    const int64_t capacity = kept->capacity > 0 ? 2 * kept->capacity : 64;
    int32_t *ids = SHOAL_NEW(stream->arena, int32_t, capacity);
    if (!ids) return SHOAL_OOM();
    if (kept->count > 0) memcpy(ids, kept->ids, (size_t)kept->count * sizeof *ids);
    kept->ids = ids;
    kept->capacity = capacity;
  }
  kept->ids[kept->count++] = token;
  kept->ended = last;
  return NULL;
}

static void write_blank(cli_stream_t *stream) {
  for (; stream->line < stream->line_count && !stream->lines[stream->line][0]; ++stream->line)
    fputc('\n', stream->out);
}

static shoal_status_t write_token(cli_stream_t *stream, int32_t token) {
  const char *text;
  int64_t length;
  if (stream->written++ == 0) {
    write_blank(stream);
    if (!stream->answers) fputs(stream->lines[stream->line], stream->out);
  }
  SHOAL_RETURN_IF_ERROR(shoal_decoder_add(stream->decoder, token, &text, &length));
  fwrite(text, 1, (size_t)length, stream->out);
  return NULL;
}

static shoal_status_t end_text(cli_stream_t *stream) {
  const char *text;
  int64_t length;
  SHOAL_RETURN_IF_ERROR(shoal_decoder_finish(stream->decoder, &text, &length));
  fwrite(text, 1, (size_t)length, stream->out);
  fputc('\n', stream->out);
  ++stream->line;
  ++stream->prompt;
  stream->written = 0;
  return NULL;
}

shoal_status_t cli_stream_token(cli_stream_t *stream, int64_t prompt, int32_t token, bool last) {
  if (prompt != stream->prompt) return keep(stream, prompt, token, last);
  SHOAL_RETURN_IF_ERROR(write_token(stream, token));
  while (last) {  // the turn of those that wait
    SHOAL_RETURN_IF_ERROR(end_text(stream));
    if (!stream->kept || stream->prompt == stream->prompt_count) break;
    const cli_stream_kept_t *kept = &stream->kept[stream->prompt];
    for (int64_t i = 0; i < kept->count; ++i)
      SHOAL_RETURN_IF_ERROR(write_token(stream, kept->ids[i]));
    last = kept->ended;
  }
  fflush(stream->out);
  return NULL;
}

shoal_status_t cli_stream_finish(cli_stream_t *stream, const shoal_tokens_t *texts) {
  while (stream->prompt < stream->prompt_count) {
    const shoal_tokens_t *text = &texts[stream->prompt];
    for (int64_t i = stream->written; i < text->count; ++i)
      SHOAL_RETURN_IF_ERROR(write_token(stream, text->ids[i]));
    SHOAL_RETURN_IF_ERROR(end_text(stream));
  }
  write_blank(stream);
  return NULL;
}
