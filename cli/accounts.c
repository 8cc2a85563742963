// See accounts.h. A line has at most 100 columns; bytes are whole numbers, so that they add up.
#include "accounts.h"

#include <ctype.h>
#include <string.h>

#include "print.h"

enum { NAME_COLUMNS = 40, LEAST_FOLDED = 3 };

// ---- layers that repeat ------------------------------------------------------------------

// A name around the number of its layer: "block" 12 "/attn/qkv/weight". length 0: it has none.
typedef struct repeat {
  size_t head, tail;  // where the number begins, and the rest
  long long number;
} repeat_t;

static repeat_t repeat_of(const char *name) {
  for (size_t at = 0; name[at]; ++at) {
    if (!isdigit((unsigned char)name[at + 1]) || isdigit((unsigned char)name[at]) ||
        name[at] == '/')
      continue;
    size_t end = at + 1;
    long long number = 0;
    for (; isdigit((unsigned char)name[end]) && end < at + 10; ++end)
      number = 10 * number + (name[end] - '0');
    if (name[end] == '/' || name[end] == 0) return (repeat_t){at + 1, end, number};
  }
  return (repeat_t){0};
}

static bool repeats(const char *a, const char *b) {
  const repeat_t x = repeat_of(a), y = repeat_of(b);
  return x.head > 0 && x.head == y.head && memcmp(a, b, x.head) == 0 &&
         strcmp(a + x.tail, b + y.tail) == 0;
}

// "block0..47/attn/qkv/weight"
static const char *folded_name(const char *name, long long first, long long last,
                               shoal_arena_t *arena) {
  const repeat_t r = repeat_of(name);
  return cli_format(arena, "%.*s%lld..%lld%s", (int)r.head, name, first, last, name + r.tail);
}

// Rows as a list of texts and numbers: those that differ in nothing but the number of their layer
// become one, if there are several of them.
enum { MOST_NUMBERS = SHOAL_LEDGER_KIND_COUNT + 2 };
typedef struct row {
  const char *name, *key;  // what else must be alike
  int64_t numbers[MOST_NUMBERS];
  int64_t folded;  // rows that it stands for
  bool gone;
  bool bounded;  // the bytes are the most that it can be
} row_t;

static bool same_key(const row_t *a, const row_t *b) {
  return a->bounded == b->bounded && strcmp(a->key, b->key) == 0;
}

// "1234", or "at most 1234" to the right in as many columns; "<= 1234" where they are few.
static void print_sent(int64_t bytes, bool bounded, int columns, FILE *out) {
  char text[40];
  snprintf(text, sizeof text, "%s%lld",
           !bounded       ? ""
           : columns < 16 ? "<= "
                          : "at most ",
           (long long)bytes);
  fprintf(out, " %*s", columns - 1, text);
}

static shoal_status_t fold(row_t *rows, int64_t count, shoal_arena_t *arena) {
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i].gone || repeat_of(rows[i].name).head == 0) continue;
    int64_t alike = 0;
    long long first = repeat_of(rows[i].name).number, last = first;
    for (int64_t k = i; k < count; ++k) {
      if (rows[k].gone || !same_key(&rows[k], &rows[i]) || !repeats(rows[i].name, rows[k].name))
        continue;
      const long long number = repeat_of(rows[k].name).number;
      ++alike;
      if (number < first) first = number;
      if (number > last) last = number;
    }
    if (alike < LEAST_FOLDED) continue;
    const char *name = rows[i].name;
    for (int64_t k = i + 1; k < count; ++k) {
      if (rows[k].gone || !same_key(&rows[k], &rows[i]) || !repeats(name, rows[k].name)) continue;
      rows[k].gone = true;
      for (int n = 0; n < MOST_NUMBERS; ++n) rows[i].numbers[n] += rows[k].numbers[n];
    }
    rows[i].folded = alike;
    rows[i].name = folded_name(name, first, last, arena);
    if (!rows[i].name) return SHOAL_ERROR(OUT_OF_MEMORY, "no memory for a table");
  }
  return NULL;
}

// The end of a name that is too long says more than its beginning.
static void print_name(const char *name, FILE *out) {
  const size_t length = strlen(name);
  if (length <= NAME_COLUMNS)
    fprintf(out, "%-*s", NAME_COLUMNS, name);
  else
    fprintf(out, "...%s", name + length - NAME_COLUMNS + 3);
}

// ---- communication ----------------------------------------------------------------------

static shoal_status_t rows_of_traffic(const cli_accounts_t *a, int64_t *out_count,
                                      const shoal_traffic_row_t **out_traffic, row_t **out_rows) {
  SHOAL_RETURN_IF_ERROR(
      shoal_lower_traffic(a->plan, a->program, "train", a->rank, a->arena, out_count, out_traffic));
  row_t *rows = SHOAL_NEW(a->arena, row_t, *out_count + 1);
  for (int64_t i = 0; i < *out_count && rows; ++i) {
    const shoal_traffic_row_t *t = &(*out_traffic)[i];
    rows[i] =
        (row_t){.name = t->name,
                .key = cli_format(a->arena, "  %-9s%-16s%-16s", shoal_traffic_pass_name(t->pass),
                                  shoal_reshard_name(t->kind), t->axes),
                .numbers = {t->calls, t->count, t->bytes},
                .bounded = t->bounded};
    if (!rows[i].key) rows = NULL;
  }
  *out_rows = rows;
  return rows ? NULL : SHOAL_ERROR(OUT_OF_MEMORY, "no memory for a table");
}

shoal_status_t cli_account_traffic(const cli_accounts_t *a, bool values) {
  int64_t count, total = 0;
  const shoal_traffic_row_t *traffic;
  row_t *rows = NULL;
  SHOAL_RETURN_IF_ERROR(rows_of_traffic(a, &count, &traffic, &rows));
  fprintf(a->out, "communication of rank %d in a step of 'train', bytes that have to leave it\n",
          a->rank);
  if (count == 0) fprintf(a->out, "  none\n");
  if (count == 0) return NULL;
  bool bounded = false;
  bool *told = SHOAL_NEW(a->arena, bool, count);
  if (!told) return SHOAL_ERROR(OUT_OF_MEMORY, "no memory for a table");
  fprintf(a->out, "  %-9s%-16s%-16s%9s%9s%16s\n", "pass", "collective", "axes", "calls", "values",
          "bytes");
  for (int64_t i = 0; i < count; ++i) {
    int64_t sums[3] = {0};
    for (int64_t k = i; k < count && !told[i]; ++k) {
      if (told[k] || !same_key(&rows[k], &rows[i])) continue;
      for (int n = 0; n < 3; ++n) sums[n] += rows[k].numbers[n];
      told[k] = k > i;
    }
    if (told[i]) continue;
    total += sums[2];
    bounded |= rows[i].bounded;
    fprintf(a->out, "%s%9lld%9lld", rows[i].key, (long long)sums[0], (long long)sums[1]);
    print_sent(sums[2], rows[i].bounded, 16, a->out);
    fputc('\n', a->out);
  }
  fprintf(a->out, "  %-9s", "total");
  print_sent(total, bounded, 66, a->out);
  fputc('\n', a->out);
  if (!values) return NULL;
  fprintf(a->out, "by value\n");
  SHOAL_RETURN_IF_ERROR(fold(rows, count, a->arena));
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i].gone) continue;
    fprintf(a->out, "  %-9s%-15s%-12s ", shoal_traffic_pass_name(traffic[i].pass),
            shoal_reshard_name(traffic[i].kind), traffic[i].axes);
    print_name(rows[i].name, a->out);
    fprintf(a->out, "%6lld", (long long)rows[i].numbers[1]);
    print_sent(rows[i].numbers[2], rows[i].bounded, 14, a->out);
    fputc('\n', a->out);
  }
  return NULL;
}

// ---- memory -----------------------------------------------------------------------------

static void print_row(const char *name, const int64_t *bytes, FILE *out) {
  int64_t total = 0;
  fprintf(out, "  %-18s", name);
  for (int k = 0; k < SHOAL_LEDGER_KIND_COUNT; ++k) {
    total += bytes[k];
    if (k == SHOAL_LEDGER_INPUTS) continue;  // with the others: there are few
    const int64_t shown =
        k == SHOAL_LEDGER_OTHER ? bytes[k] + bytes[SHOAL_LEDGER_INPUTS] : bytes[k];
    fprintf(out, "%11lld", (long long)shown);
  }
  fprintf(out, "%13lld\n", (long long)total);
}

static shoal_status_t memory_table(const cli_accounts_t *a, shoal_memory_kind_t kind) {
  shoal_ledger_t ledger;
  SHOAL_RETURN_IF_ERROR(
      shoal_lower_ledger(a->plan, a->program, "train", a->rank, kind, a->arena, &ledger));
  row_t *rows = SHOAL_NEW(a->arena, row_t, ledger.count + 1);
  if (!rows) return SHOAL_ERROR(OUT_OF_MEMORY, "no memory for a table");
  for (int64_t i = 0; i < ledger.count; ++i) {
    rows[i] = (row_t){.name = ledger.rows[i].layer, .key = ""};
    memcpy(rows[i].numbers, ledger.rows[i].bytes, sizeof ledger.rows[i].bytes);
  }
  SHOAL_RETURN_IF_ERROR(fold(rows, ledger.count, a->arena));
  fprintf(a->out, "%s memory of rank %d in a step of 'train', bytes when most is needed\n",
          shoal_memory_kind_name(kind), a->rank);
  if (ledger.at) fprintf(a->out, "  (that is at '%.80s')\n", ledger.at);
  fprintf(a->out, "  %-18s%11s%11s%11s%11s%11s%11s%13s\n", "layer", "parameters", "states",
          "activation", "gradients", "gathered", "other", "total");
  for (int64_t i = 0; i < ledger.count; ++i)
    if (!rows[i].gone) print_row(rows[i].name, rows[i].numbers, a->out);
  fprintf(a->out, "  %-18s%79lld\n", "unused", (long long)ledger.unused);
  fprintf(a->out, "  %-18s%79lld\n", "arena", (long long)ledger.total);
  return NULL;
}

shoal_status_t cli_account_memory(const cli_accounts_t *a) {
  const shoal_class_t *rank_class = shoal_program_class_of(a->program, a->rank);
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind)
    if (!rank_class || kind == 0 || rank_class->arena_bytes[kind] > 0)
      SHOAL_RETURN_IF_ERROR(memory_table(a, (shoal_memory_kind_t)kind));
  return NULL;
}

shoal_status_t cli_account_layers(const cli_accounts_t *a, int64_t index) {
  int64_t count;
  const shoal_layer_memory_t *layers;
  SHOAL_RETURN_IF_ERROR(
      shoal_lower_layers(a->plan, a->program, index, "train", a->arena, &count, &layers));
  row_t *rows = SHOAL_NEW(a->arena, row_t, count + 1);
  if (!rows) return SHOAL_ERROR(OUT_OF_MEMORY, "no memory for a table");
  for (int64_t i = 0; i < count; ++i)
    rows[i] = (row_t){
        .name = layers[i].layer,
        .key = "",
        .numbers = {layers[i].parameters, layers[i].others, layers[i].kept[SHOAL_MEMORY_DEVICE],
                    layers[i].kept[SHOAL_MEMORY_HOST], layers[i].kept[SHOAL_MEMORY_FILE]}};
  SHOAL_RETURN_IF_ERROR(fold(rows, count, a->arena));
  fprintf(a->out, "  %-22s %14s %14s %14s %14s %14s\n", "layer, bytes", "parameters",
          "other states", "kept", "kept on host", "kept in a file");
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i].gone) continue;
    fprintf(a->out, "  %-22s", rows[i].name);
    for (int n = 0; n < 5; ++n) fprintf(a->out, " %14lld", (long long)rows[i].numbers[n]);
    fputc('\n', a->out);
  }
  return NULL;
}

// ---- values -----------------------------------------------------------------------------

static const char *buffer_kind(shoal_buffer_kind_t kind) {
  static const char *const names[] = {"value", "state", "input", "output", "new state"};
  return names[kind];
}

static shoal_status_t rows_of_values(const cli_accounts_t *a, const shoal_class_t *rank_class,
                                     row_t **out_rows) {
  row_t *rows = SHOAL_NEW(a->arena, row_t, rank_class->buffer_count + 1);
  if (!rows) return SHOAL_ERROR(OUT_OF_MEMORY, "no memory for a table");
  for (int64_t i = 0; i < rank_class->buffer_count; ++i) {
    const shoal_buffer_t *b = &rank_class->buffers[i];
    const char *layout;
    char *type = cli_format(a->arena, "%s[", shoal_dtype_name(b->type.dtype));
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(b->layout, a->arena, &layout));
    for (int32_t d = 0; d < b->type.shape.rank && type; ++d)
      type = cli_format(a->arena, "%s%s%lld", type, d ? "," : "", (long long)b->type.shape.dims[d]);
    if (type) type = cli_format(a->arena, "%s]", type);
    rows[i] = (row_t){.name = b->name, .numbers = {b->bytes}};
    rows[i].key = type ? cli_format(a->arena, "%-9s %-18s %-16s", buffer_kind(b->kind), type,
                                    layout[0] ? layout : "replicated")
                       : NULL;
    if (!rows[i].key) return SHOAL_ERROR(OUT_OF_MEMORY, "no memory for a table");
    rows[i].gone = b->kind == SHOAL_BUFFER_NEXT;  // it lies where the state lies
  }
  *out_rows = rows;
  return NULL;
}

shoal_status_t cli_account_values(const cli_accounts_t *a) {
  const shoal_class_t *rank_class = shoal_program_class_of(a->program, a->rank);
  row_t *rows = NULL;
  if (!rank_class) return SHOAL_ERROR(INVALID_ARGUMENT, "there is no rank %d", a->rank);
  SHOAL_RETURN_IF_ERROR(rows_of_values(a, rank_class, &rows));
  SHOAL_RETURN_IF_ERROR(fold(rows, rank_class->buffer_count, a->arena));
  fprintf(a->out, "values of rank %d: whole type, layout, bytes of one slot on the rank\n",
          a->rank);
  for (int64_t i = 0; i < rank_class->buffer_count; ++i) {
    if (rows[i].gone) continue;
    fputs("  ", a->out);
    print_name(rows[i].name, a->out);
    fprintf(a->out, " %s %10lld\n", rows[i].key, (long long)rows[i].numbers[0]);
  }
  return NULL;
}

// ---- JSON -------------------------------------------------------------------------------

static shoal_status_t json_traffic(const cli_accounts_t *a) {
  int64_t count;
  const shoal_traffic_row_t *rows;
  SHOAL_RETURN_IF_ERROR(
      shoal_lower_traffic(a->plan, a->program, "train", a->rank, a->arena, &count, &rows));
  fprintf(a->out, ",\n \"communication\": [");
  for (int64_t i = 0; i < count; ++i) {
    fprintf(a->out, "%s\n  {\"pass\": \"%s\", \"collective\": \"%s\", \"axes\": ", i ? "," : "",
            shoal_traffic_pass_name(rows[i].pass), shoal_reshard_name(rows[i].kind));
    cli_print_json(rows[i].axes, a->out);
    fputs(", \"value\": ", a->out);
    cli_print_json(rows[i].name, a->out);
    fprintf(a->out, ", \"bounded\": %s, \"calls\": %lld, \"count\": %lld, \"bytes\": %lld}",
            rows[i].bounded ? "true" : "false", (long long)rows[i].calls, (long long)rows[i].count,
            (long long)rows[i].bytes);
  }
  fputs("]", a->out);
  return NULL;
}

static shoal_status_t json_memory(const cli_accounts_t *a) {
  fputs(",\n \"memory\": {", a->out);
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    shoal_ledger_t ledger;
    SHOAL_RETURN_IF_ERROR(shoal_lower_ledger(a->plan, a->program, "train", a->rank,
                                             (shoal_memory_kind_t)kind, a->arena, &ledger));
    fprintf(a->out, "%s\n  \"%s\": {\"arena\": %lld, \"unused\": %lld, \"at\": ", kind ? "," : "",
            shoal_memory_kind_name((shoal_memory_kind_t)kind), (long long)ledger.total,
            (long long)ledger.unused);
    cli_print_json(ledger.at ? ledger.at : "", a->out);
    fputs(", \"layers\": [", a->out);
    for (int64_t i = 0; i < ledger.count; ++i) {
      fprintf(a->out, "%s\n   {\"layer\": ", i ? "," : "");
      cli_print_json(ledger.rows[i].layer, a->out);
      for (int k = 0; k < SHOAL_LEDGER_KIND_COUNT; ++k)
        fprintf(a->out, ", \"%s\": %lld", shoal_ledger_kind_name((shoal_ledger_kind_t)k),
                (long long)ledger.rows[i].bytes[k]);
      fputs("}", a->out);
    }
    fputs("]}", a->out);
  }
  fputs("}", a->out);
  return NULL;
}

static shoal_status_t json_values(const cli_accounts_t *a) {
  const shoal_class_t *rank_class = shoal_program_class_of(a->program, a->rank);
  fputs(",\n \"values\": [", a->out);
  for (int64_t i = 0; rank_class && i < rank_class->buffer_count; ++i) {
    const shoal_buffer_t *b = &rank_class->buffers[i];
    const char *layout;
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(b->layout, a->arena, &layout));
    fprintf(a->out, "%s\n  {\"name\": ", i ? "," : "");
    cli_print_json(b->name, a->out);
    fprintf(a->out, ", \"kind\": \"%s\", \"dtype\": \"%s\", \"shape\": ", buffer_kind(b->kind),
            shoal_dtype_name(b->type.dtype));
    cli_print_shape(&b->type.shape, a->out);
    fputs(", \"layout\": ", a->out);
    cli_print_json(layout, a->out);
    fprintf(a->out, ", \"memory\": \"%s\", \"offset\": %lld, \"bytes\": %lld}",
            shoal_memory_kind_name(b->memory), (long long)b->offset, (long long)b->bytes);
  }
  fputs("]", a->out);
  return NULL;
}

shoal_status_t cli_account_json(const cli_accounts_t *a, int show) {
  const bool all = show == CLI_SHOW_ALL;
  if (!shoal_program_class_of(a->program, a->rank))
    return SHOAL_ERROR(INVALID_ARGUMENT, "there is no rank %d: the plan has %d", a->rank,
                       a->program->world);
  fprintf(a->out, "{\"graph\": \"train\", \"ranks\": %d, \"rank\": %d", a->program->world, a->rank);
  if (all || show == CLI_SHOW_VALUES) SHOAL_RETURN_IF_ERROR(json_values(a));
  if (all || show == CLI_SHOW_COMMUNICATION) SHOAL_RETURN_IF_ERROR(json_traffic(a));
  if (all || show == CLI_SHOW_MEMORY) SHOAL_RETURN_IF_ERROR(json_memory(a));
  fputs("}\n", a->out);
  return NULL;
}
