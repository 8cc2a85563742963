// Kinds of decisions and their choices: what is no choice is refused before anything is planned.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/locale.h"
#include "base/status.h"
#include "plan/complete.h"
#include "plan/kinds.h"
#include "shoal/options.h"

#define TEXT_NODE "nodes"
#define TEXT_VALUE "states, inputs and values"
#define TEXT_STATE "states"
#define TEXT_OUTPUT "outputs"
#define TEXT_GRAPH "graphs"

static const shoal_decision_kind_t kinds[SHOAL_DECIDE_COUNT] = {
#define SHOAL_DECISION(id, name, of, choices, doc) {name, TEXT_##of, choices, doc},
#include "plan/decisions.inc"
#undef SHOAL_DECISION
};

static const shoal_of_t sorts[SHOAL_DECIDE_COUNT] = {
#define SHOAL_DECISION(id, name, of, choices, doc) SHOAL_OF_##of,
#include "plan/decisions.inc"
#undef SHOAL_DECISION
};

const shoal_decision_kind_t *shoal_decision_kind(int64_t index) {
  return index >= 0 && index < SHOAL_DECIDE_COUNT ? &kinds[index] : NULL;
}

shoal_of_t shoal_kind_of(shoal_decide_t kind) {
  return sorts[kind];
}

shoal_decide_t shoal_kind_find(const char *name) {
  int kind = 0;
  while (kind < SHOAL_DECIDE_COUNT && strcmp(kinds[kind].name, name) != 0) ++kind;
  return (shoal_decide_t)kind;
}

shoal_status_t shoal_decision_annotate(const shoal_intent_decision_t *decision,
                                       shoal_status_t status) {
  if (!status) return NULL;
  const int length = (int)strcspn(decision->choice, "\n");  // of a table, its first row
  return shoal_status_annotatef(status, "decision '%s %s %.*s%s'", decision->kind,
                                decision->pattern, length, decision->choice,
                                decision->choice[length] ? " ..." : "");
}

// ---- choices ---------------------------------------------------------------------------

enum { MOST_WORDS = 8, WORD_SIZE = 24 };

// The words that a choice may start with: "device|host|file", "table <text>|gpipe".
static int64_t words_of(const char *choices, char (*words)[WORD_SIZE], const char **names) {
  int64_t count = 0;
  for (const char *at = choices; at && *at && count < MOST_WORDS;) {
    const char *end = strchr(at, '|');
    size_t length = strcspn(at, "| ");
    if (length >= WORD_SIZE) length = WORD_SIZE - 1;
    memcpy(words[count], at, length);
    words[count][length] = 0;
    names[count] = words[count];
    ++count;
    at = end ? end + 1 : NULL;
  }
  return count;
}

static shoal_status_t check_word(shoal_decide_t kind, const char *choice) {
  char words[MOST_WORDS][WORD_SIZE];
  const char *names[MOST_WORDS];
  const int64_t count = words_of(kinds[kind].choices, words, names);
  const size_t length = strcspn(choice, " ");
  for (int64_t i = 0; i < count; ++i) {
    const bool longer = strcmp(words[i], "table") == 0;
    if (strlen(words[i]) == length && strncmp(words[i], choice, length) == 0 &&
        (longer || choice[length] == 0))
      return NULL;
  }
  char otherwise[96];
  snprintf(otherwise, sizeof otherwise, "one of %s", kinds[kind].choices);
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          shoal_did_you_mean(choice, names, count, otherwise, &hint),
                          "'%s' is no choice of %s", choice, kinds[kind].name);
}

#define SYNC_WORDS "last, each, bucket=SIZE, bucket=NAME, dtype=f16, scale=1024, sparse, dense"
#define MOST_SCALE_LOG2 30

// A power of two, so that multiplying and dividing by it rounds nothing.
static shoal_status_t sync_scale(const char *value, int32_t *out_log2) {
  char *end;
  int power = 0;
  const double scale = shoal_parse_double(value, &end);
  const bool fits = end != value && !*end && isfinite(scale) && frexp(scale, &power) == 0.5;
  if (!fits || power - 1 > MOST_SCALE_LOG2 || power - 1 < -MOST_SCALE_LOG2)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "scale=1024; scale=1 is none",
                            "scale '%s' is no power of two from 2^-%d to 2^%d", value,
                            MOST_SCALE_LOG2, MOST_SCALE_LOG2);
  *out_log2 = power - 1;
  return NULL;
}

// One word of a `sync` choice.
static shoal_status_t sync_word(const char *word, shoal_arena_t *arena, shoal_sync_t *sync) {
  static const char *const words[] = {"last",  "each",   "bucket", "dtype",
                                      "scale", "sparse", "dense"};
  const char *equals = strchr(word, '='), *value = equals ? equals + 1 : "";
  if (strcmp(word, "last") == 0 || strcmp(word, "each") == 0) {
    sync->each = word[0] == 'e';
    return NULL;
  }
  if (strncmp(word, "bucket=", 7) == 0) {
    if (!value[0])
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "bucket=4M, or a name: bucket=block3",
                              "'bucket=' needs a size or a name");
    sync->bucket = NULL;
    sync->bucket_bytes = 0;
    if (shoal_size_parse(value, &sync->bucket_bytes)) return NULL;
    if (strchr("0123456789+-.", value[0]))
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "bucket=4M, or a name: bucket=block3",
                              "'%s' is no size", value);
    sync->bucket = shoal_arena_strdup(arena, value);
    return sync->bucket ? NULL : SHOAL_OOM();
  }
  if (strncmp(word, "dtype=", 6) == 0) {
    sync->cast = strcmp(value, "none") != 0;
    if (!sync->cast) sync->scale_log2 = 0;  // of what goes in its own type
    if (!sync->cast) return NULL;
    if (!shoal_dtype_parse(value, &sync->dtype) || !shoal_dtype_is_float(sync->dtype))
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "dtype=bf16", "'%s' is no type of floats", value);
    return NULL;
  }
  if (strncmp(word, "scale=", 6) == 0) return sync_scale(value, &sync->scale_log2);
  if (strncmp(word, "window=", 7) == 0)
    return SHOAL_ERROR_HINT(UNSUPPORTED, "leave it out: every step then sees the last update",
                            "windows of several steps are not planned yet");
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, shoal_did_you_mean(word, words, 7, SYNC_WORDS, &hint),
                          "'%s' is no word of sync", word);
}

shoal_status_t shoal_decision_sync(const shoal_intent_decision_t *decision, shoal_arena_t *arena,
                                   shoal_sync_t *out_sync) {
  char *rest = shoal_arena_strdup(arena, decision->choice);
  if (!rest) return SHOAL_OOM();
  if (!rest[strspn(rest, " ")])
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, SYNC_WORDS, "sync needs a word");
  while (*(rest += strspn(rest, " "))) {
    const size_t length = strcspn(rest, " ");
    const bool more = rest[length];
    rest[length] = 0;
    if (strcmp(rest, "sparse") == 0 || strcmp(rest, "dense") == 0) {
      out_sync->rows = rest[0] == 's' ? SHOAL_ROWS_SPARSE : SHOAL_ROWS_DENSE;
      out_sync->rows_by = decision;
    } else {
      SHOAL_RETURN_IF_ERROR(sync_word(rest, arena, out_sync));
    }
    rest += length + more;
  }
  return NULL;
}

static shoal_status_t check_layers(const char *choice) {
  char *end;
  const long layers = strtol(choice, &end, 10);
  if (end == choice || *end || layers < 0 || layers > SHOAL_PLAN_MAX_PREFETCH)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "1 is the next layer, 0 none",
                            "'%s' is no number of layers from 0 to %d", choice,
                            SHOAL_PLAN_MAX_PREFETCH);
  return NULL;
}

bool shoal_tiling_of(const char *choice, shoal_tiling_t *out_tiling) {
  const bool where_possible = strncmp(choice, "auto ", 5) == 0;
  const char *number = where_possible ? choice + 5 : choice;
  char *end;
  *out_tiling = (shoal_tiling_t){0};
  if (strcmp(choice, "no") == 0) return true;
  if (strcmp(number, "ring") == 0) {
    *out_tiling = (shoal_tiling_t){1, true, where_possible};
    return true;
  }
  const long count = strtol(number, &end, 10);
  if (end == number || *end || count < 2 || count > SHOAL_PLAN_MAX_TILES) return false;
  *out_tiling = (shoal_tiling_t){(int32_t)count, false, where_possible};
  return true;
}

const char *shoal_tiling_text(const shoal_tiling_t *tiling, char out[16]) {
  const char *where = tiling->where_possible ? "auto " : "";
  if (tiling->ring)
    snprintf(out, 16, "%sring", where);
  else
    snprintf(out, 16, "%s%d", where, tiling->count);
  return tiling->count > 0 ? out : "no";
}

static shoal_status_t check_tiles(const char *choice) {
  shoal_tiling_t tiling;
  if (shoal_tiling_of(choice, &tiling)) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "'4', 'auto 4' for where it is possible, 'ring', 'auto ring' or 'no'",
                          "'%s' is no number of tiles from 2 to %d", choice, SHOAL_PLAN_MAX_TILES);
}

static shoal_status_t check_choice(shoal_decide_t kind, const shoal_intent_decision_t *decision) {
  if (kind == SHOAL_DECIDE_SYNC) {
    shoal_arena_t scratch;
    shoal_sync_t sync;
    shoal_arena_init(shoal_allocator_system(), &scratch);
    shoal_status_t status = shoal_decision_sync(decision, &scratch, &sync);
    shoal_arena_deinit(&scratch);
    return status;
  }
  if (kind == SHOAL_DECIDE_PREFETCH) return check_layers(decision->choice);
  if (kind == SHOAL_DECIDE_TILE) return check_tiles(decision->choice);
  if (kind == SHOAL_DECIDE_WAY && !strchr(decision->choice, '='))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "write AXIS=WAY, like data=a:0 -> out:0; `shoal rules` lists ways",
                            "'%s' names no axis", decision->choice);
  return kinds[kind].choices[0] == '<' ? NULL : check_word(kind, decision->choice);
}

shoal_status_t shoal_decision_check(const shoal_intent_decision_t *decision) {
  const shoal_decide_t kind = shoal_kind_find(decision->kind);
  if (kind < SHOAL_DECIDE_COUNT)
    return shoal_decision_annotate(decision, check_choice(kind, decision));
  const char *names[SHOAL_DECIDE_COUNT];
  for (int k = 0; k < SHOAL_DECIDE_COUNT; ++k) names[k] = kinds[k].name;
  shoal_hint_t hint;
  return shoal_decision_annotate(
      decision,
      SHOAL_ERROR_HINT(NOT_FOUND,
                       shoal_did_you_mean(decision->kind, names, SHOAL_DECIDE_COUNT,
                                          "docs/plan.md lists the kinds of decisions", &hint),
                       "there is no kind of decision '%s'", decision->kind));
}
