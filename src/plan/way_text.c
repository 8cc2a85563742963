// The choice of a way as text: "whole", or the way as rules print it, and behind it, in the form of
// layouts, how its items are dealt: "{x:1 -> out:1}~ *3/16(3,1)".
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "plan/choose.h"
#include "shoal/options.h"

// ---- printing --------------------------------------------------------------------------

static void print_cut(const shoal_item_cut_t *cut, int64_t axis_size, shoal_text_t *text) {
  if (cut->chunk_count > 0 && cut->chunks[0].length == 0) {
    shoal_text_addf(text, "*%d", cut->chunk_count);
  } else if (cut->chunk_count > 0) {
    for (int32_t i = 0; i < cut->chunk_count; ++i) {
      shoal_text_addf(text, "%s%lld", i ? "," : "*(", (long long)cut->chunks[i].length);
      if (cut->chunks[i].unit > 0) shoal_text_addf(text, "/%lld", (long long)cut->chunks[i].unit);
    }
    shoal_text_add(text, ")");
  }
  if (cut->unit > 1) shoal_text_addf(text, "/%lld", (long long)cut->unit);
  for (int64_t i = 0; cut->weights && i < axis_size; ++i)
    shoal_text_addf(text, "%s%lld", i ? "," : "(", (long long)cut->weights[i]);
  if (cut->weights) shoal_text_add(text, ")");
}

shoal_status_t shoal_way_choice_print(const shoal_node_t *node, const shoal_choice_t *choice,
                                      int64_t axis_size, shoal_arena_t *arena,
                                      const char **out_text) {
  *out_text = "whole";
  if (!choice->way) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_way_print(node->op, node->attrs, choice->way, arena, out_text));
  const shoal_item_cut_t *cut = &choice->item_cut;
  if (cut->unit <= 1 && cut->chunk_count == 0 && !cut->weights) return NULL;
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_text_addf(&text, "%s ", *out_text);
  print_cut(cut, axis_size, &text);
  return shoal_text_finish(&text, arena, out_text);
}

// ---- parsing ---------------------------------------------------------------------------

// A number of at least `low`, small enough that sums of them do not overflow.
static bool scan_number(shoal_scan_t *scan, int64_t low, int64_t *out_value) {
  if (!shoal_scan_int(scan, out_value)) return false;
  if (*out_value >= low && *out_value <= INT32_MAX) return true;
  return shoal_scan_fail(scan, "a number from %lld to %d is wanted", (long long)low, INT32_MAX);
}

static bool scan_chunks(shoal_scan_t *scan, shoal_item_cut_t *cut) {
  int64_t count = 0;
  if (!shoal_scan_accept(scan, "(")) {
    if (!scan_number(scan, 1, &count)) return false;
    cut->chunk_count = (int32_t)count;
    return true;
  }
  do {
    shoal_chunk_t *chunk = &cut->chunks[cut->chunk_count];
    if (cut->chunk_count == SHOAL_MAX_CHUNKS)
      return shoal_scan_fail(scan, "at most %d chunks", SHOAL_MAX_CHUNKS);
    if (!scan_number(scan, 1, &chunk->length)) return false;
    if (shoal_scan_accept(scan, "/") && !scan_number(scan, 1, &chunk->unit)) return false;
    ++cut->chunk_count;
  } while (shoal_scan_accept(scan, ","));
  return shoal_scan_expect(scan, ")");
}

static bool scan_weights(shoal_scan_t *scan, int64_t axis_size, int64_t *weights) {
  for (int64_t i = 0; i < axis_size; ++i) {
    if (i > 0 && !shoal_scan_expect(scan, ",")) return false;
    if (!scan_number(scan, 0, &weights[i])) return false;
  }
  return shoal_scan_expect(scan, ")");
}

static shoal_status_t parse_cut(const char *text, int64_t axis_size, shoal_arena_t *arena,
                                bool *out_dealt, shoal_item_cut_t *out_cut) {
  shoal_scan_t scan;
  shoal_scan_init("way", text, &scan);
  *out_dealt = !shoal_scan_at_end(&scan);
  if (shoal_scan_accept(&scan, "*") && !scan_chunks(&scan, out_cut))
    return shoal_scan_status(&scan);
  if (shoal_scan_accept(&scan, "/") && !scan_number(&scan, 1, &out_cut->unit))
    return shoal_scan_status(&scan);
  if (shoal_scan_accept(&scan, "(")) {
    int64_t *weights = SHOAL_NEW(arena, int64_t, axis_size);
    if (!weights) return SHOAL_OOM();
    if (!scan_weights(&scan, axis_size, weights)) return shoal_scan_status(&scan);
    out_cut->weights = weights;
  }
  if (!shoal_scan_at_end(&scan)) shoal_scan_fail(&scan, "'%s' is no way to deal items", text);
  return shoal_scan_status(&scan);
}

// Where the text of the way itself ends: behind its last '}' and a '~'.
static size_t way_length(const char *text) {
  const char *end = strrchr(text, '}');
  if (!end) return strlen(text);
  return (size_t)(end - text) + (end[1] == '~' ? 2 : 1);
}

// Is it the same way? The '~' (items may be dealt in any order) need not be written.
static bool same_way(const char *printed, const char *text, size_t length) {
  if (strncmp(printed, text, length) != 0) return false;
  return !printed[length] || (text[length - 1] == '}' && strcmp(printed + length, "~") == 0);
}

shoal_status_t shoal_way_choice_parse(const char *text, const shoal_rule_t *rule,
                                      const shoal_node_t *node, int64_t axis_size,
                                      shoal_arena_t *arena, bool *out_dealt,
                                      shoal_choice_t *out_choice) {
  const char *equals = strchr(text, '='), *brace = strchr(text, '{');
  if (equals && (!brace || equals < brace)) text = equals + 1;
  text += strspn(text, " ");
  *out_choice = (shoal_choice_t){0};
  *out_dealt = false;
  if (strcmp(text, "whole") == 0) return NULL;
  const size_t length = way_length(text);
  for (int32_t w = 0; w < rule->way_count + (rule->claimed != NULL) && !out_choice->way; ++w) {
    const shoal_way_t *way = w < rule->way_count ? &rule->ways[w] : rule->claimed;
    const char *printed = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_way_print(node->op, node->attrs, way, arena, &printed));
    if (same_way(printed, text, length)) out_choice->way = way;
  }
  if (!out_choice->way)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "`shoal rules` lists the ways of an op; 'whole' is always one",
                            "'%.*s' is no way of %s", (int)length, text, node->op->name);
  return parse_cut(text + length, axis_size, arena, out_dealt, &out_choice->item_cut);
}
