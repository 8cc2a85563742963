// The table of algorithms: built-in rows, parsing, printing. See table.h.
#include "comm/backends/local/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/backends/local/meet.h"
#include "shoal/options.h"

#define DEFAULT_CHUNK (512 << 10)
#define MIN_CHUNK 4096
#define MAX_CHUNK (64 << 20)

static const char *const algorithms[] = {"inline", "direct", "bounce", "composed"};
#define ALGORITHM_COUNT 4

static const shoal_local_row_t builtin[] = {
    // Inline, everyone reads everything, and each of its lines moves twice between the caches.
    {SHOAL_COLLECTIVE_ALL_REDUCE, 0, 512, SHOAL_LOCAL_INLINE, DEFAULT_CHUNK},
    {SHOAL_COLLECTIVE_ALL_REDUCE, 0, -1, SHOAL_LOCAL_DIRECT, DEFAULT_CHUNK},
    {SHOAL_COLLECTIVE_BROADCAST, 0, 2048, SHOAL_LOCAL_INLINE, DEFAULT_CHUNK},
    {-1, 0, 1024, SHOAL_LOCAL_INLINE, DEFAULT_CHUNK},
    {-1, 0, -1, SHOAL_LOCAL_DIRECT, DEFAULT_CHUNK},
};
#define BUILTIN_COUNT ((int32_t)(sizeof builtin / sizeof builtin[0]))

static shoal_status_t bad_row(const char *row, const char *why) {
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "rows are KIND[,n<=RANKS][,bytes<=BYTES]=ALGORITHM[/CHUNK]",
                          "SHOAL_COMM_TABLE, row '%s': %s", row, why);
}

static bool parse_kind(const char *name, int32_t *out_kind) {
  *out_kind = -1;
  if (strcmp(name, "*") == 0) return true;
  for (int32_t i = 0; i < SHOAL_COLLECTIVE_COUNT; ++i) {
    if (strcmp(name, shoal_collective_name((shoal_collective_kind_t)i)) != 0) continue;
    *out_kind = i;
    return true;
  }
  return false;
}

static shoal_status_t parse_row(const char *text, shoal_local_row_t *out_row) {
  char left[128], *right, *save = NULL;
  snprintf(left, sizeof left, "%s", text);
  right = strrchr(left, '=');
  if (!right || right == left || right[-1] == '<') return bad_row(text, "no '=ALGORITHM'");
  *right++ = 0;
  shoal_local_row_t row = {.bytes = -1, .chunk = DEFAULT_CHUNK};
  char *word = strtok_r(left, ",", &save);
  if (!word || !parse_kind(word, &row.kind)) return bad_row(text, "no such collective");
  while ((word = strtok_r(NULL, ",", &save))) {
    int64_t value;
    if (strncmp(word, "n<=", 3) == 0 && shoal_size_parse(word + 3, &value) && value > 0 &&
        value <= INT32_MAX) {
      row.ranks = (int32_t)value;
    } else if (strncmp(word, "bytes<=", 7) == 0 && shoal_size_parse(word + 7, &value)) {
      row.bytes = value;
    } else {
      return bad_row(text, "a condition is n<=RANKS or bytes<=BYTES");
    }
  }
  char *chunk = strchr(right, '/');
  if (chunk) *chunk++ = 0;
  int algorithm = 0;
  while (algorithm < ALGORITHM_COUNT && strcmp(right, algorithms[algorithm]) != 0) ++algorithm;
  if (algorithm == ALGORITHM_COUNT) {
    return bad_row(text, "algorithms are inline, direct, bounce and composed");
  }
  row.algorithm = (shoal_local_algorithm_t)algorithm;
  if (chunk &&
      (!shoal_size_parse(chunk, &row.chunk) || row.chunk < MIN_CHUNK || row.chunk > MAX_CHUNK)) {
    return bad_row(text, "a chunk is 4K to 64M");
  }
  *out_row = row;
  return NULL;
}

shoal_status_t shoal_local_table_init(const char *text, shoal_local_table_t *out_table) {
  *out_table = (shoal_local_table_t){0};
  char row[128];
  while (text && *text) {
    text += strspn(text, " ;\n");
    const size_t length = strcspn(text, " ;\n");
    if (length == 0) break;
    snprintf(row, sizeof row, "%.*s", (int)length, text);
    if (length >= sizeof row) return bad_row(row, "it is too long");
    if (out_table->count == SHOAL_LOCAL_ROWS - BUILTIN_COUNT) return bad_row(row, "too many rows");
    SHOAL_RETURN_IF_ERROR(parse_row(row, &out_table->rows[out_table->count++]));
    text += length;
  }
  out_table->given = out_table->count;
  memcpy(out_table->rows + out_table->count, builtin, sizeof builtin);
  out_table->count += BUILTIN_COUNT;
  return NULL;
}

const shoal_local_row_t *shoal_local_table_find(const shoal_local_table_t *table,
                                                shoal_collective_kind_t kind, int32_t ranks,
                                                int64_t bytes) {
  const shoal_local_row_t *row = table->rows;
  for (; row < table->rows + table->count - 1; ++row) {
    if (row->kind >= 0 && row->kind != (int32_t)kind) continue;
    if (row->ranks > 0 && ranks > row->ranks) continue;
    if (row->bytes < 0 || bytes <= row->bytes) break;
  }
  return row;
}

static void print_table(const shoal_local_table_t *table, shoal_text_t *text) {
  for (int32_t i = 0; i < table->count; ++i) {
    const shoal_local_row_t *row = &table->rows[i];
    shoal_text_addf(
        text, "%s",
        row->kind < 0 ? "*" : shoal_collective_name((shoal_collective_kind_t)row->kind));
    if (row->ranks > 0) shoal_text_addf(text, ",n<=%d", row->ranks);
    if (row->bytes >= 0) shoal_text_addf(text, ",bytes<=%lld", (long long)row->bytes);
    shoal_text_addf(text, "=%s", algorithms[row->algorithm]);
    if (row->algorithm == SHOAL_LOCAL_DIRECT || row->algorithm == SHOAL_LOCAL_BOUNCE) {
      shoal_text_addf(text, "/%lldK", (long long)row->chunk / 1024);
    }
    shoal_text_addf(text, "%s\n", i < table->given ? "   # SHOAL_COMM_TABLE" : "");
  }
}

shoal_status_t shoal_comm_table_print(shoal_arena_t *arena, const char **out_text) {
  shoal_local_table_t table;
  SHOAL_RETURN_IF_ERROR(shoal_local_table_init(getenv("SHOAL_COMM_TABLE"), &table));
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  print_table(&table, &text);
  return shoal_text_finish(&text, arena, out_text);
}
