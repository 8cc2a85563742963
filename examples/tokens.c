// Text to token ids and back, and the metrics of a run.
//
// Usage: tokens [TOKENIZER]    a folder with tokenizer.json, or with vocab.json and merges.txt
#include <math.h>
#include <shoal/shoal.h>
#include <stdio.h>

static const char TEXT[] = "Schools of fish move as one. 魚 🐟";

// Prints ids one by one, as a model generates them: a character appears when all of its bytes are
// there.
static shoal_status_t type_out(const shoal_tokenizer_t *tokenizer, const int32_t *ids,
                               int64_t count) {
  shoal_decoder_t *decoder = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_decoder_create(tokenizer, NULL, &decoder));
  shoal_status_t status = NULL;
  const char *text;
  int64_t length;
  for (int64_t i = 0; i < count && !status; ++i) {
    status = shoal_decoder_add(decoder, ids[i], &text, &length);
    if (!status) fputs(text, stdout);
  }
  if (!status) status = shoal_decoder_finish(decoder, &text, &length);
  if (!status) puts(text);
  shoal_decoder_free(decoder);
  return status;
}

static shoal_status_t tokens(const char *path) {
  shoal_tokenizer_t *tokenizer = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_open(path, NULL, &tokenizer));
  const int32_t *ids;
  int64_t count;
  shoal_status_t status = shoal_tokenizer_encode(tokenizer, TEXT, -1, NULL, &ids, &count);
  if (!status) {
    printf("%lld tokens of %lld:", (long long)count, (long long)shoal_tokenizer_size(tokenizer));
    for (int64_t i = 0; i < count; ++i) printf(" %d", ids[i]);
    puts("");
    status = type_out(tokenizer, ids, count);
  }
  shoal_tokenizer_free(tokenizer);
  return status;
}

static shoal_status_t metrics(void) {
  const shoal_metrics_options_t options = {.jsonl = NULL, .tensorboard = NULL};  // names of files
  shoal_metrics_t *writer = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_metrics_open(&options, &writer));
  shoal_status_t status = NULL;
  for (int64_t step = 1; step <= 100 && !status; ++step) {
    const shoal_metric_t values[] = {{"loss", 2 + 3 * exp(-0.05 * (double)step)}, {"lr", 1e-3}};
    status = shoal_metrics_write(writer, step, values, 2);
  }
  shoal_metrics_free(writer);
  return status;
}

int main(int argc, char **argv) {
  shoal_status_t status = tokens(argc > 1 ? argv[1] : "bytes");
  if (!status) status = metrics();
  if (!status) return 0;
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_print(status, NULL);
  shoal_status_free(status);
  return code;
}
