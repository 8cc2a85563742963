// The table as text, and from text or JSON. Rows are printed one a line; the parser takes line ends
// for blanks, as a row ends where the name of the next stands.
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "plan/plan.h"
#include "plan/schedule.h"

shoal_status_t shoal_schedule_print(const shoal_schedule_t *schedule, shoal_arena_t *arena,
                                    const char **out_text) {
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  for (int32_t r = 0; r < schedule->mesh_count; ++r) {
    const shoal_schedule_row_t *row = &schedule->rows[r];
    shoal_text_add_name(&text, row->mesh);
    shoal_text_add(&text, ":");
    for (int64_t k = 0; k < row->count; ++k)
      shoal_text_addf(&text, " %c%d.%d", shoal_work_letter(row->entries[k].work),
                      row->entries[k].stage, row->entries[k].micro);
    shoal_text_add(&text, "\n");
  }
  return shoal_text_finish(&text, arena, out_text);
}

// ---- parse -----------------------------------------------------------------------------

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The number at *at, at most `most`; -1 if there is none or it is more.
static int32_t read_number(const char **at, int32_t most) {
  int64_t value = -1;
  for (; is_digit(**at) && value <= most; ++*at)
    value = (value < 0 ? 0 : value * 10) + (**at - '0');
  return value <= most ? (int32_t)value : -1;
}

// Is an entry next? "F0.0" with a ':' behind it is the name of a mesh.
static bool next_is_entry(shoal_scan_t *scan) {
  if (shoal_scan_peek(scan, "\"")) return false;  // behind blanks and comments from here on
  const char *at = scan->at;
  if (*at != 'F' && *at != 'B' && *at != 'W') return false;
  for (++at; is_digit(*at) || *at == '.'; ++at) continue;
  for (; *at == ' ' || *at == '\t'; ++at) continue;
  return is_digit(scan->at[1]) && *at != ':';
}

static bool scan_entry(shoal_scan_t *scan, shoal_schedule_entry_t *out_entry) {
  const char *at = scan->at + 1;
  out_entry->work = *scan->at == 'F'   ? SHOAL_WORK_FORWARD
                    : *scan->at == 'B' ? SHOAL_WORK_BACKWARD
                                       : SHOAL_WORK_WEIGHT;
  out_entry->stage = read_number(&at, SHOAL_SCHEDULE_MAX_STAGES - 1);
  if (out_entry->stage < 0)
    return shoal_scan_fail(scan, "at most %d stages are possible", SHOAL_SCHEDULE_MAX_STAGES);
  if (*at++ != '.' || !is_digit(*at))
    return shoal_scan_fail(scan, "expected an entry such as F0.3: work, stage, '.', micro-batch");
  out_entry->micro = read_number(&at, SHOAL_PLAN_MAX_MICRO - 1);
  if (out_entry->micro < 0)
    return shoal_scan_fail(scan, "at most %d micro-batches are possible", SHOAL_PLAN_MAX_MICRO);
  if (*at && *at != ' ' && *at != '\t' && *at != '\r' && *at != '\n' && *at != '#')
    return shoal_scan_fail(scan, "expected a blank behind the entry");
  scan->at = at;
  return true;
}

typedef SHOAL_VEC(shoal_schedule_entry_t) entries_t;
typedef SHOAL_VEC(shoal_schedule_row_t) rows_t;

static bool scan_row(shoal_scan_t *scan, shoal_arena_t *arena, shoal_schedule_row_t *out_row) {
  entries_t entries = {0};
  shoal_schedule_entry_t entry;
  if (!shoal_scan_name(scan, arena, &out_row->mesh) || !shoal_scan_expect(scan, ":")) return false;
  while (next_is_entry(scan)) {
    if (!scan_entry(scan, &entry)) return false;
    if (!SHOAL_PUSH(arena, &entries, entry)) return shoal_scan_check(scan, SHOAL_OOM());
  }
  out_row->count = entries.count;
  out_row->entries = entries.items;
  return true;
}

// Counts stages and micro-batches; a stage is on the mesh of its first entry.
static shoal_status_t number_stages(shoal_schedule_t *t, shoal_arena_t *arena) {
  for (int32_t r = 0; r < t->mesh_count; ++r)
    for (int64_t k = 0; k < t->rows[r].count; ++k) {
      const shoal_schedule_entry_t *e = &t->rows[r].entries[k];
      if (e->stage >= t->stage_count) t->stage_count = e->stage + 1;
      if (e->micro >= t->micro) t->micro = e->micro + 1;
      t->split |= e->work == SHOAL_WORK_WEIGHT;
    }
  t->stage_meshes = SHOAL_NEW(arena, int32_t, t->stage_count);
  if (!t->stage_meshes) return SHOAL_OOM();
  for (int32_t s = 0; s < t->stage_count; ++s) t->stage_meshes[s] = -1;
  for (int32_t r = t->mesh_count; r-- > 0;)
    for (int64_t k = 0; k < t->rows[r].count; ++k) t->stage_meshes[t->rows[r].entries[k].stage] = r;
  return NULL;
}

// Are all words of it entries, as far as one can tell from how they begin?
static bool are_entries(const char *words) {
  for (const char *at = words + strspn(words, " "); *at; at += strspn(at, " ")) {
    if ((*at != 'F' && *at != 'B' && *at != 'W') || !is_digit(at[1])) return false;
    const size_t length = 1 + strspn(at + 1, ".0123456789");
    if (at[length] && at[length] != ' ') return false;
    at += length;
  }
  return true;
}

// One row of a table in JSON, as text: "F0.0 B0.0", or a list of such words.
static shoal_status_t add_json_row(const char *name, const shoal_json_t *row, shoal_text_t *text) {
  const bool list = row->kind == SHOAL_JSON_ARRAY;
  shoal_text_add_quoted(text, row->key);
  shoal_text_add(text, ":");
  for (int64_t k = 0; k < (list ? row->count : 1); ++k) {
    const shoal_json_t *entry = list ? &row->children[k] : row;
    if (entry->kind != SHOAL_JSON_STRING || !are_entries(entry->string))
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT, "write {\"a\": \"F0.0 B0.0\"}, or {\"a\": [\"F0.0\", \"B0.0\"]}",
          "%s: row '%s' is not a text of entries, or a list of them", name, row->key);
    shoal_text_addf(text, " %s", entry->string);
  }
  shoal_text_add(text, "\n");
  return NULL;
}

// A table in JSON, {"a": "F0.0 B0.0", ...}, as text.
static shoal_status_t from_json(const char *name, const char *text, shoal_arena_t *arena,
                                const char **out_text) {
  const shoal_json_t *json;
  SHOAL_RETURN_IF_ERROR(shoal_json_parse(name, text, arena, &json));
  shoal_text_t rows;
  shoal_text_init(shoal_allocator_system(), &rows);
  shoal_status_t status = NULL;
  for (int64_t r = 0; r < json->count && !status; ++r)
    status = add_json_row(name, &json->children[r], &rows);
  return shoal_text_close(&rows, status, arena, out_text);
}

shoal_status_t shoal_schedule_parse(const char *name, const char *text, shoal_arena_t *arena,
                                    const shoal_schedule_t **out_schedule) {
  *out_schedule = NULL;
  if (text[strspn(text, " \t\r\n")] == '{')
    SHOAL_RETURN_IF_ERROR(from_json(name, text, arena, &text));
  shoal_scan_t scan;
  shoal_scan_init(name, text, &scan);
  scan.comments = true;
  rows_t rows = {0};
  while (!shoal_scan_at_end(&scan)) {
    shoal_schedule_row_t row;
    if (!scan_row(&scan, arena, &row)) break;
    for (int64_t r = 0; r < rows.count; ++r)
      if (strcmp(rows.items[r].mesh, row.mesh) == 0)
        shoal_scan_fail(&scan, "mesh '%s' has two rows", row.mesh);
    if (!SHOAL_PUSH(arena, &rows, row)) shoal_scan_check(&scan, SHOAL_OOM());
  }
  SHOAL_RETURN_IF_ERROR(shoal_scan_status(&scan));
  shoal_schedule_t *schedule = SHOAL_NEW(arena, shoal_schedule_t, 1);
  if (!schedule) return SHOAL_OOM();
  *schedule =
      (shoal_schedule_t){.name = "table", .mesh_count = (int32_t)rows.count, .rows = rows.items};
  SHOAL_RETURN_IF_ERROR(number_stages(schedule, arena));
  *out_schedule = schedule;
  return NULL;
}
