// Choices in words - what to recompute, what to keep in other memory, how to exchange gradients -
// as the decisions that they stand for. Nothing here knows what a decision does.
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"
#include "planners/planners.h"

typedef struct writer {
  const shoal_model_t *model;
  shoal_arena_t *arena;
  const char *reason;  // the choice as it was written
  int64_t found;       // decisions that there were, those that are there already among them
  SHOAL_VEC(shoal_intent_decision_t) decisions;
} writer_t;

static shoal_status_t add(writer_t *w, const char *kind, const char *pattern, const char *choice) {
  ++w->found;
  for (int64_t i = 0; i < w->decisions.count; ++i) {
    const shoal_intent_decision_t *other = &w->decisions.items[i];
    if (strcmp(other->kind, kind) == 0 && strcmp(other->pattern, pattern) == 0 &&
        strcmp(other->choice, choice) == 0)
      return NULL;
  }
  const shoal_intent_decision_t decision = {
      .kind = kind, .pattern = pattern, .choice = choice, .by = "user", .reason = w->reason};
  return SHOAL_PUSH(w->arena, &w->decisions, decision) ? NULL : SHOAL_OOM();
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// ---- recompute ------------------------------------------------------------------------

// The name with a '*' instead of the digits at the end of each scope, up to `length`.
static const char *stem_of(const writer_t *w, const char *name, size_t length) {
  char *stem = shoal_arena_printf(w->arena, "%.*s", (int)length, name);
  size_t to = 0;
  for (size_t at = 0; stem && at < length;) {
    size_t end = at;
    while (is_digit(name[end]) && end < length) ++end;
    const bool number = end > at && (end == length || name[end] == '/');
    stem[to++] = number ? '*' : name[at];
    at = number ? end : at + 1;
    if (at >= length) stem[to] = 0;
  }
  return stem;
}

// Up to the first scope whose name ends in a digit; 0: there is none.
static size_t block_length(const char *name) {
  for (size_t at = 1; name[at - 1] && name[at]; ++at)
    if (name[at] == '/' && is_digit(name[at - 1])) return at;
  return 0;
}

// Blocks are scopes that differ only in a number at the end, from 0 on: a single one ends in 0.
static shoal_status_t recompute_blocks(writer_t *w, const shoal_graph_t *graph) {
  const char **firsts = SHOAL_NEW(w->arena, const char *, 2 * graph->nodes.count + 1);
  int64_t count = 0;
  if (!firsts) return SHOAL_OOM();
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    const size_t length = node->kind == SHOAL_NODE_FORWARD ? block_length(node->name) : 0;
    if (length == 0) continue;
    const char *stem = stem_of(w, node->name, length);
    if (!stem) return SHOAL_OOM();
    int64_t at = 0;
    while (at < count && strcmp(firsts[2 * at], stem) != 0) ++at;
    if (at == count) {
      firsts[2 * at] = stem;
      firsts[2 * at + 1] = node->name;
      ++count;
    }
    const bool zero =
        node->name[length - 1] == '0' && !(length > 1 && is_digit(node->name[length - 2]));
    if (zero || strncmp(firsts[2 * at + 1], node->name, length) != 0)
      SHOAL_RETURN_IF_ERROR(add(w, "recompute", stem, "yes"));
  }
  return NULL;
}

// Scopes that hold attention, the products before and behind it among them.
static shoal_status_t recompute_attention(writer_t *w, const shoal_graph_t *graph) {
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    const char *end = strrchr(node->name, '/');
    if (node->kind != SHOAL_NODE_FORWARD || !end || strcmp(node->op->name, "shoal.attention") != 0)
      continue;
    const char *stem = stem_of(w, node->name, (size_t)(end - node->name));
    const char *pattern = stem ? shoal_arena_printf(w->arena, "%s/*", stem) : NULL;
    if (!pattern) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(add(w, "recompute", pattern, "yes"));
  }
  return NULL;
}

// The next word of a list with commas, cut off at its end; NULL behind the last.
static char *next_word(char **rest) {
  char *word = *rest;
  if (!word) return NULL;
  char *end = word + shoal_pattern_length(word);
  *rest = *end ? end + 1 : NULL;
  *end = 0;
  return word;
}

// Does a model mark parts to be computed again?
static bool has_marks(const shoal_model_t *model) {
  bool found = false;
  for (int64_t g = 0; g < model->graphs.count && !found; ++g)
    for (int64_t n = 0; n < model->graphs.items[g]->nodes.count && !found; ++n)
      found = model->graphs.items[g]->nodes.items[n].recompute > 0;
  return found;
}

// What a word finds in all graphs.
static shoal_status_t recompute_parts(writer_t *w, bool blocks) {
  const int64_t before = w->found;
  for (int64_t g = 0; g < w->model->graphs.count; ++g) {
    const shoal_graph_t *graph = w->model->graphs.items[g];
    SHOAL_RETURN_IF_ERROR(blocks ? recompute_blocks(w, graph) : recompute_attention(w, graph));
  }
  if (w->found > before) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name nodes by patterns instead: recompute 'enc/*'",
                          "recompute %s: the model has %s", blocks ? "block" : "attention",
                          blocks ? "no blocks, scopes that are numbered like block0 and block1"
                                 : "no scope with attention");
}

static shoal_status_t choose_recompute(writer_t *w, const char *text) {
  if (strcmp(text, "none") == 0) return has_marks(w->model) ? add(w, "recompute", "*", "no") : NULL;
  char *rest = shoal_arena_strdup(w->arena, text);
  if (!rest) return SHOAL_OOM();
  for (char *word; (word = next_word(&rest));) {
    const bool blocks = strcmp(word, "block") == 0, attention = strcmp(word, "attention") == 0;
    if (strcmp(word, "none") == 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave 'none' or the others out",
                              "recompute '%s': 'none' stands alone", text);
    SHOAL_RETURN_IF_ERROR(blocks || attention ? recompute_parts(w, blocks)
                                              : add(w, "recompute", word, "yes"));
  }
  return NULL;
}

// ---- offload --------------------------------------------------------------------------

static bool is_moment(const shoal_state_info_t *state) {
  return strchr(state->name, '#') != NULL;
}

// What is trained, and nothing else: the decisions behind the first take others out again.
static shoal_status_t offload_weights(writer_t *w, const char *place, const char *moments) {
  SHOAL_RETURN_IF_ERROR(add(w, "memory", "*", place));
  bool any = false;
  for (int64_t s = 0; s < w->model->states.count; ++s) {
    const shoal_state_info_t *state = &w->model->states.items[s];
    any |= is_moment(state);
    if (!is_moment(state) && !state->options.trainable)
      SHOAL_RETURN_IF_ERROR(add(w, "memory", state->name, "device"));
  }
  return any ? add(w, "memory", "*#*", moments) : NULL;
}

static shoal_status_t offload_optimizer(writer_t *w, const char *place) {
  for (int64_t s = 0; s < w->model->states.count; ++s)
    if (is_moment(&w->model->states.items[s])) return add(w, "memory", "*#*", place);
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave it out: sgd without momentum has none",
                          "offload: the optimizer has no states to keep elsewhere");
}

static shoal_status_t choose_offload(writer_t *w, const char *text) {
  static const char *const names[] = {"optimizer", "weights", "activations"};
  const char *places[3] = {NULL, NULL, NULL};
  bool said[3] = {false, false, false};
  if (strcmp(text, "none") == 0) return NULL;
  char *rest = shoal_arena_strdup(w->arena, text);
  if (!rest) return SHOAL_OOM();
  for (char *word; (word = next_word(&rest));) {
    char *equals = strchr(word, '=');
    if (equals) *equals = 0;
    const char *place = equals ? equals + 1 : "host";
    int at = 0;
    while (at < 3 && strcmp(names[at], word) != 0) ++at;
    if (at == 3 ||
        (strcmp(place, "host") != 0 && strcmp(place, "file") != 0 && strcmp(place, "device") != 0))
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                              "for example optimizer=host,weights=file,activations=file",
                              "offload '%s': '%s%s%s' is not optimizer, weights or activations, "
                              "with =host or =file",
                              text, word, equals ? "=" : "", equals ? place : "");
    if (said[at])
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "say once where it lies",
                              "offload '%s': '%s' is there twice", text, word);
    said[at] = true;
    places[at] = strcmp(place, "device") == 0 ? NULL : place;
  }
  if (places[1])
    SHOAL_RETURN_IF_ERROR(offload_weights(w, places[1], places[0] ? places[0] : "device"));
  else if (places[0])
    SHOAL_RETURN_IF_ERROR(offload_optimizer(w, places[0]));
  return places[2] ? add(w, "keep", "*", places[2]) : NULL;
}

// ---- compress -------------------------------------------------------------------------

static shoal_status_t choose_compress(writer_t *w, const char *text) {
  if (strcmp(text, "none") == 0) return NULL;
  const char *colon = strchr(text, ':');
  const size_t length = colon ? (size_t)(colon - text) : strlen(text);
  if (strncmp(text, "bf16", length > 4 ? length : 4) != 0 &&
      strncmp(text, "f16", length > 3 ? length : 3) != 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "none, bf16 or f16; f16:1024 scales, too",
                            "compress '%s' is no such type", text);
  const char *choice = shoal_arena_printf(w->arena, "dtype=%.*s%s%s", (int)length, text,
                                          colon ? " scale=" : "", colon ? colon + 1 : "");
  return choice ? add(w, "sync", "*", choice) : SHOAL_OOM();
}

// ---- all ------------------------------------------------------------------------------

static shoal_status_t choose(writer_t *w, const char *name, const char *text,
                             shoal_status_t (*choice)(writer_t *, const char *)) {
  if (!text || !text[0]) return NULL;
  w->reason = shoal_arena_printf(w->arena, "%s %s", name, text);
  return w->reason ? choice(w, text) : SHOAL_OOM();
}

shoal_status_t shoal_choices_decide(const shoal_model_t *model, const shoal_choices_t *choices,
                                    int64_t count, const shoal_intent_decision_t *decisions,
                                    shoal_arena_t *arena, int64_t *out_count,
                                    const shoal_intent_decision_t **out_decisions) {
  writer_t w = {.model = model, .arena = arena};
  SHOAL_RETURN_IF_ERROR(choose(&w, "recompute", choices->recompute, choose_recompute));
  SHOAL_RETURN_IF_ERROR(choose(&w, "offload", choices->offload, choose_offload));
  SHOAL_RETURN_IF_ERROR(choose(&w, "compress", choices->compress, choose_compress));
  for (int64_t i = 0; i < count; ++i)
    if (!SHOAL_PUSH(arena, &w.decisions, decisions[i])) return SHOAL_OOM();
  *out_count = w.decisions.count;
  *out_decisions = w.decisions.items;
  return NULL;
}
