// Lines of metrics, read back as curves.
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "shoal/metrics.h"

typedef struct curve {
  const char *name;
  SHOAL_VEC(int64_t) steps;
  SHOAL_VEC(double) values;
} curve_t;

typedef struct reader {
  const char *path;
  shoal_arena_t *arena;
  shoal_arena_t line;  // what belongs to one line
  SHOAL_VEC(curve_t) curves;
} reader_t;

static curve_t *find_curve(reader_t *r, const char *name) {
  for (int64_t i = 0; i < r->curves.count; ++i) {
    if (strcmp(r->curves.items[i].name, name) == 0) return &r->curves.items[i];
  }
  const char *copy = shoal_arena_strdup(r->arena, name);
  if (!copy || !SHOAL_PUSH(r->arena, &r->curves, (curve_t){.name = copy})) return NULL;
  return &r->curves.items[r->curves.count - 1];
}

static shoal_status_t add_value(reader_t *r, const char *name, int64_t step, double value) {
  curve_t *curve = find_curve(r, name);
  if (!curve) return SHOAL_OOM();
  while (curve->steps.count && curve->steps.items[curve->steps.count - 1] >= step) {
    --curve->steps.count;
    --curve->values.count;
  }
  return SHOAL_PUSH(r->arena, &curve->steps, step) && SHOAL_PUSH(r->arena, &curve->values, value)
             ? NULL
             : SHOAL_OOM();
}

// Texts that are no numbers ("nan" is one) are notes, which nobody draws.
static shoal_status_t read_line(reader_t *r, const char *line) {
  const shoal_json_t *object;
  int64_t step;
  SHOAL_RETURN_IF_ERROR(shoal_json_parse("line", line, &r->line, &object));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(object, "step", &step));
  for (int64_t i = 0; i < object->count; ++i) {
    const char *name = object->children[i].key;
    double value;
    if (strcmp(name, "step") == 0 || strcmp(name, "time") == 0) continue;
    shoal_status_t status = shoal_json_get_real(object, name, &value);
    if (status) {
      shoal_status_free(status);
      continue;
    }
    SHOAL_RETURN_IF_ERROR(add_value(r, name, step, value));
  }
  return NULL;
}

static shoal_status_t read_lines(reader_t *r, char *text, int64_t size, bool *out_cut) {
  int64_t number = 0;
  for (char *line = text, *next; line < text + size; line = next) {
    char *end = memchr(line, '\n', (size_t)(text + size - line));
    next = end ? end + 1 : text + size;
    if (end) *end = 0;
    ++number;
    if (line[strspn(line, " \t\r")] == 0 && line + strlen(line) + 1 >= next) continue;
    shoal_arena_clear(&r->line);
    shoal_status_t status = strlen(line) < (size_t)(next - line) - (end ? 1 : 0)
                                ? SHOAL_ERROR(INVALID_ARGUMENT, "a zero byte")
                                : read_line(r, line);
    if (status && !end && shoal_status_code(status) == SHOAL_INVALID_ARGUMENT) {
      shoal_status_free(status);
      *out_cut = true;
      return NULL;
    }
    if (status && shoal_status_code(status) == SHOAL_INVALID_ARGUMENT) {
      shoal_status_t named = SHOAL_ERROR_HINT(
          INVALID_ARGUMENT, "a line is {\"step\": 12, \"loss\": 2.5}; remove those that are none",
          "%s:%lld: this is no line of metrics: %s", r->path, (long long)number,
          shoal_status_message(status));
      shoal_status_free(status);
      return named;
    }
    if (status) return status;
  }
  return NULL;
}

static shoal_status_t read_file(reader_t *r, shoal_curves_t *out_curves) {
  const char *data;
  int64_t size;
  SHOAL_RETURN_IF_ERROR(shoal_file_read(r->path, r->arena, &data, &size));
  char *text = shoal_arena_copy(r->arena, data, (size_t)size + 1, 1);
  const char *path = shoal_arena_strdup(r->arena, r->path);
  if (!text || !path) return SHOAL_OOM();
  bool cut = false;
  SHOAL_RETURN_IF_ERROR(read_lines(r, text, size, &cut));
  if (!r->curves.count) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' has no metrics: no line was written", r->path);
  }
  shoal_curve_t *items = SHOAL_NEW(r->arena, shoal_curve_t, r->curves.count);
  if (!items) return SHOAL_OOM();
  for (int64_t i = 0; i < r->curves.count; ++i) {
    const curve_t *curve = &r->curves.items[i];
    items[i] =
        (shoal_curve_t){curve->name, curve->steps.count, curve->steps.items, curve->values.items};
  }
  *out_curves = (shoal_curves_t){path, r->curves.count, items, cut};
  return NULL;
}

shoal_status_t shoal_metrics_read(const char *path, shoal_arena_t *arena,
                                  shoal_curves_t *out_curves) {
  *out_curves = (shoal_curves_t){0};
  reader_t reader = {.path = path, .arena = arena};
  shoal_arena_init(arena->allocator, &reader.line);
  shoal_status_t status = read_file(&reader, out_curves);
  shoal_arena_deinit(&reader.line);
  return status;
}
