// Prints a data set, for scripts that compare: of each column a line with its name, element type
// and shape (samples first), then its bytes.
// Usage: data_dump DATA [--kind KIND] [--length T] [--height H] [--width W] [--resize R]
#include <shoal/shoal.h>
#include <stdio.h>

static const shoal_option_t table[] = {
    SHOAL_OPTION(shoal_dataset_options_t, STRING, kind, NULL, "kind"),
    SHOAL_OPTION(shoal_dataset_options_t, INT, length, NULL, "tokens of a window"),
    SHOAL_OPTION(shoal_dataset_options_t, INT, token_bytes, NULL, "of a token"),
    SHOAL_OPTION(shoal_dataset_options_t, STRING, tokenizer, NULL, "tokenizer"),
    SHOAL_OPTION(shoal_dataset_options_t, INT, height, NULL, "of images"),
    SHOAL_OPTION(shoal_dataset_options_t, INT, width, NULL, "of images"),
    SHOAL_OPTION(shoal_dataset_options_t, INT, resize, NULL, "shorter side"),
    SHOAL_OPTION(shoal_dataset_options_t, INT, channels, NULL, "of images"),
};
enum { OPTIONS = sizeof table / sizeof *table };

static shoal_status_t print(shoal_dataset_t *dataset) {
  const int64_t count = shoal_dataset_count(dataset);
  shoal_loader_t *loader;
  const shoal_loader_options_t all = {.batch = count, .in_order = true, .as_stored = true};
  SHOAL_RETURN_IF_ERROR(shoal_loader_create(dataset, &all, &loader));
  shoal_batch_t batch;
  shoal_status_t status = shoal_loader_next(loader, &batch);
  for (int32_t i = 0; !status && i < batch.column_count; ++i) {
    const shoal_column_t *column = shoal_dataset_column(dataset, i);
    printf("%s %s %lld", column->name, shoal_dtype_name(column->dtype), (long long)count);
    for (int32_t d = 0; d < column->shape.rank; ++d)
      printf(",%lld", (long long)column->shape.dims[d]);
    printf("\n");
    fwrite(batch.columns[i].data, 1, (size_t)batch.columns[i].bytes, stdout);
  }
  shoal_loader_free(loader);
  return status;
}

int main(int argc, char **argv) {
  shoal_arena_t *arena = NULL;
  shoal_dataset_options_t options = {0};
  shoal_words_t words;
  shoal_dataset_t *dataset = NULL;
  shoal_status_t status = shoal_arena_create(shoal_allocator_system(), &arena);
  if (!status)
    status = shoal_options_parse(table, OPTIONS, argc - 1, (const char *const *)argv + 1, arena,
                                 &options, &words);
  if (!status)
    status = shoal_dataset_open(words.count > 0 ? words.items[0] : NULL, &options, &dataset);
  if (!status) status = print(dataset);
  shoal_status_print(status, stderr);
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_dataset_free(dataset);
  shoal_arena_free(arena);
  return code;
}
