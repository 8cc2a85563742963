// Text of a random case, out and in.
#include "explore/random_case.h"

#include <string.h>

#include "base/status.h"
#include "op/text.h"

static const char *const optimizer_names[SHOAL_CASE_OPTIMIZER_COUNT] = {
    "none", "sgd", "momentum", "adamw", "adam", "lion", "lamb", "adafactor", "muon"};

const char *shoal_random_case_optimizer(const shoal_random_case_t *c) {
  return optimizer_names[c->optimizer];
}

// Words that switch something on.
static const struct {
  const char *word;
  size_t offset;
} flags[] = {
    {"eval", offsetof(shoal_random_case_t, eval)},
    {"untrained", offsetof(shoal_random_case_t, untrained)},
    {"guarded", offsetof(shoal_random_case_t, guarded)},
    {"processes", offsetof(shoal_random_case_t, processes)},
    {"opaque", offsetof(shoal_random_case_t, opaque)},
    {"clipped", offsetof(shoal_random_case_t, clipped)},
    {"clipped_before", offsetof(shoal_random_case_t, clipped_before)},
    {"averaged", offsetof(shoal_random_case_t, averaged)},
    {"scaled", offsetof(shoal_random_case_t, scaled)},
};
enum { FLAG_COUNT = sizeof flags / sizeof *flags };

static bool *flag_of(shoal_random_case_t *c, int i) {
  return (bool *)((char *)c + flags[i].offset);
}

// ---- out ----------------------------------------------------------------------------------------

// Without blanks: the line is to be passed around.
static void add_type(shoal_text_t *text, const shoal_type_t *type) {
  shoal_text_addf(text, "%s[", shoal_dtype_name(type->dtype));
  for (int32_t d = 0; d < type->shape.rank; ++d)
    shoal_text_addf(text, "%s%lld", d ? "," : "", (long long)type->shape.dims[d]);
  shoal_text_add(text, "]");
}

static void add_ref(shoal_text_t *text, shoal_case_ref_t ref) {
  if (ref.kind == 'n')
    shoal_text_add(text, "step");
  else
    shoal_text_addf(text, "%c%d", ref.kind, ref.index);
  if (ref.output > 0) shoal_text_addf(text, ".%d", ref.output);
}

shoal_case_scope_t shoal_random_case_scope(const shoal_random_case_t *c, int64_t node) {
  shoal_case_scope_t scope;
  if (c->blocks > 0)
    snprintf(scope.text, sizeof scope.text, "b%lld/v%lld", (long long)(node / c->blocks),
             (long long)node);
  else
    snprintf(scope.text, sizeof scope.text, "v%lld", (long long)node);
  return scope;
}

static void add_case(shoal_text_t *text, const shoal_random_case_t *c) {
  shoal_random_case_t copy = *c;
  shoal_text_addf(text, "seed=%lld ranks=%lld %s", (long long)c->seed, (long long)c->ranks,
                  optimizer_names[c->optimizer]);
  for (int i = 0; i < FLAG_COUNT; ++i) {
    if (*flag_of(&copy, i)) shoal_text_addf(text, " %s", flags[i].word);
  }
  if (c->steps != SHOAL_CASE_STEPS) shoal_text_addf(text, " steps=%lld", (long long)c->steps);
  if (c->blocks > 0) shoal_text_addf(text, " blocks=%lld", (long long)c->blocks);
  for (int64_t i = 0; i < c->inputs.count; ++i) {
    const shoal_case_input_t *input = &c->inputs.items[i];
    shoal_text_addf(text, "; i%lld=", (long long)i);
    add_type(text, &input->type);
    if (input->limit > 0) shoal_text_addf(text, "<%lld", (long long)input->limit);
    if (input->magnitude > 0) shoal_text_addf(text, "~%lld", (long long)input->magnitude);
    if (input->positive) shoal_text_add(text, "+");
    if (input->ties) shoal_text_add(text, "=");
  }
  for (int64_t i = 0; i < c->states.count; ++i) {
    shoal_text_addf(text, "; s%lld=", (long long)i);
    add_type(text, &c->states.items[i]);
  }
  for (int64_t i = 0; i < c->nodes.count; ++i) {
    const shoal_case_node_t *node = &c->nodes.items[i];
    shoal_text_addf(text, "; v%lld=%s(", (long long)i, node->op);
    for (int32_t r = 0; r < node->ref_count; ++r) {
      if (r > 0) shoal_text_add(text, ",");
      add_ref(text, node->refs[r]);
    }
    shoal_text_addf(text, node->attrs[0] ? "){%s}" : ")", node->attrs);
    if (node->held) shoal_text_addf(text, " held %s", node->held);
  }
  for (int64_t i = 0; i < c->meshes.count; ++i)
    shoal_text_addf(text, "; mesh %s", c->meshes.items[i]);
  for (int64_t i = 0; i < c->pins.count; ++i)
    shoal_text_addf(text, "; pin %s %s", c->pins.items[i].pattern, c->pins.items[i].value);
  for (int64_t i = 0; i < c->stages.count; ++i)
    shoal_text_addf(text, "; stage %s %s", c->stages.items[i].pattern, c->stages.items[i].value);
  for (int64_t i = 0; i < c->expand.count; ++i)
    shoal_text_addf(text, "; expand %s", c->expand.items[i]);
  for (int64_t i = 0; i < c->decisions.count; ++i)
    shoal_text_addf(text, "; decide %s %s %s", c->decisions.items[i].kind,
                    c->decisions.items[i].pattern, c->decisions.items[i].choice);
}

shoal_status_t shoal_random_case_print(const shoal_random_case_t *c, shoal_arena_t *arena,
                                       const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  add_case(&text, c);
  return shoal_text_finish(&text, arena, out_text);
}

// ---- in -----------------------------------------------------------------------------------------

typedef struct case_reader {
  shoal_scan_t scan;
  shoal_arena_t *arena;
  shoal_random_case_t *c;
  const shoal_registry_t *registry;
} case_reader_t;

static bool no_memory(case_reader_t *r) {
  return shoal_scan_check(&r->scan, SHOAL_OOM());
}

// What stands before `stop` characters, trimmed.
static bool read_raw(case_reader_t *r, const char *stop, const char **out_text) {
  const char *at = r->scan.at + strspn(r->scan.at, " ");
  size_t length = strcspn(at, stop);
  r->scan.at = at + length;
  while (length > 0 && at[length - 1] == ' ') --length;
  char *text = shoal_arena_alloc(r->arena, length + 1, 1);
  if (!text) return no_memory(r);
  memcpy(text, at, length);
  *out_text = text;
  return true;
}

static bool read_head(case_reader_t *r) {
  int64_t seed = 0;
  while (!shoal_scan_peek(&r->scan, ";") && !shoal_scan_at_end(&r->scan)) {
    const char *word = NULL;
    if (!read_raw(r, "= ;", &word)) return false;
    if (strcmp(word, "seed") == 0) {
      if (!shoal_scan_expect(&r->scan, "=") || !shoal_scan_int(&r->scan, &seed)) return false;
      r->c->seed = (uint64_t)seed;
    } else if (strcmp(word, "ranks") == 0) {
      if (!shoal_scan_expect(&r->scan, "=") || !shoal_scan_int(&r->scan, &r->c->ranks))
        return false;
    } else if (strcmp(word, "steps") == 0) {
      if (!shoal_scan_expect(&r->scan, "=") || !shoal_scan_int(&r->scan, &r->c->steps))
        return false;
    } else if (strcmp(word, "blocks") == 0) {
      if (!shoal_scan_expect(&r->scan, "=") || !shoal_scan_int(&r->scan, &r->c->blocks))
        return false;
      if (r->c->blocks < 0) return shoal_scan_fail(&r->scan, "blocks of less than no node");
    } else {
      int flag = 0, k = 0;
      while (flag < FLAG_COUNT && strcmp(word, flags[flag].word) != 0) ++flag;
      if (flag < FLAG_COUNT) {
        *flag_of(r->c, flag) = true;
        continue;
      }
      while (k < SHOAL_CASE_OPTIMIZER_COUNT && strcmp(word, optimizer_names[k]) != 0) ++k;
      if (k == SHOAL_CASE_OPTIMIZER_COUNT)
        return shoal_scan_fail(&r->scan, "unknown word '%s'", word);
      r->c->optimizer = (shoal_case_optimizer_t)k;
    }
  }
  return true;
}

static bool read_number(case_reader_t *r, int32_t *out_number) {
  int64_t number = 0;
  if (!shoal_scan_int(&r->scan, &number)) return false;
  *out_number = (int32_t)number;
  return true;
}

static bool read_ref(case_reader_t *r, shoal_case_ref_t *out_ref) {
  *out_ref = (shoal_case_ref_t){.kind = 'n'};
  if (shoal_scan_accept(&r->scan, "step")) return true;
  r->scan.at += strspn(r->scan.at, " ");
  out_ref->kind = *r->scan.at;
  if (!strchr("isv", out_ref->kind) || !out_ref->kind)
    return shoal_scan_fail(&r->scan, "expected i, s or v");
  ++r->scan.at;
  if (!read_number(r, &out_ref->index)) return false;
  return !shoal_scan_accept(&r->scan, ".") || read_number(r, &out_ref->output);
}

static bool read_node(case_reader_t *r) {
  shoal_case_node_t node = {.attrs = ""};
  if (!read_raw(r, "(;", &node.op) || !shoal_scan_expect(&r->scan, "(")) return false;
  if (!shoal_scan_accept(&r->scan, ")")) {
    do {
      if (node.ref_count == SHOAL_CASE_REFS) return shoal_scan_fail(&r->scan, "too many inputs");
      if (!read_ref(r, &node.refs[node.ref_count++])) return false;
    } while (shoal_scan_accept(&r->scan, ","));
    if (!shoal_scan_expect(&r->scan, ")")) return false;
  }
  if (shoal_scan_accept(&r->scan, "{") &&
      !(read_raw(r, "}", &node.attrs) && shoal_scan_expect(&r->scan, "}")))
    return false;
  if (shoal_scan_accept(&r->scan, "held") && !read_raw(r, ";", &node.held)) return false;
  shoal_status_t status = shoal_random_case_infer(r->c, r->registry, &node, r->arena);
  if (status) {
    shoal_scan_fail(&r->scan, "v%lld: %s", (long long)r->c->nodes.count,
                    shoal_status_message(status));
    shoal_status_free(status);
    return false;
  }
  return SHOAL_PUSH(r->arena, &r->c->nodes, node) || no_memory(r);
}

// "pin NAME LAYOUT", "stage PATTERN MESH"
static bool read_pair(case_reader_t *r, shoal_intent_entry_t *out_entry) {
  return read_raw(r, " ;", &out_entry->pattern) && read_raw(r, ";", &out_entry->value);
}

// "decide KIND PATTERN CHOICE"
static bool read_decision(case_reader_t *r) {
  shoal_intent_decision_t decision = {.by = "random", .reason = "drawn"};
  return read_raw(r, " ;", &decision.kind) && read_raw(r, " ;", &decision.pattern) &&
         read_raw(r, ";", &decision.choice) &&
         (SHOAL_PUSH(r->arena, &r->c->decisions, decision) || no_memory(r));
}

static bool read_definition(case_reader_t *r, char kind) {
  int32_t number = 0;
  if (!read_number(r, &number) || !shoal_scan_expect(&r->scan, "=")) return false;
  int64_t expected = kind == 'i'   ? r->c->inputs.count
                     : kind == 's' ? r->c->states.count
                                   : r->c->nodes.count;
  if (number != expected) return shoal_scan_fail(&r->scan, "%c%d is out of order", kind, number);
  if (kind == 'v') return read_node(r);
  shoal_case_input_t input = {0};
  if (!shoal_scan_type(&r->scan, &input.type)) return false;
  if (kind == 's') return SHOAL_PUSH(r->arena, &r->c->states, input.type) || no_memory(r);
  if (shoal_scan_accept(&r->scan, "<") && !shoal_scan_int(&r->scan, &input.limit)) return false;
  if (shoal_scan_accept(&r->scan, "~") && !shoal_scan_int(&r->scan, &input.magnitude)) return false;
  input.positive = shoal_scan_accept(&r->scan, "+");
  input.ties = shoal_scan_accept(&r->scan, "=");
  return SHOAL_PUSH(r->arena, &r->c->inputs, input) || no_memory(r);
}

static bool read_statement(case_reader_t *r) {
  shoal_intent_entry_t entry;
  const char *text = NULL;
  if (shoal_scan_accept(&r->scan, "mesh"))
    return read_raw(r, ";", &text) && (SHOAL_PUSH(r->arena, &r->c->meshes, text) || no_memory(r));
  if (shoal_scan_accept(&r->scan, "expand"))
    return read_raw(r, ";", &text) && (SHOAL_PUSH(r->arena, &r->c->expand, text) || no_memory(r));
  if (shoal_scan_accept(&r->scan, "pin"))
    return read_pair(r, &entry) && (SHOAL_PUSH(r->arena, &r->c->pins, entry) || no_memory(r));
  if (shoal_scan_accept(&r->scan, "stage"))
    return read_pair(r, &entry) && (SHOAL_PUSH(r->arena, &r->c->stages, entry) || no_memory(r));
  if (shoal_scan_accept(&r->scan, "decide")) return read_decision(r);
  r->scan.at += strspn(r->scan.at, " ");
  char kind = *r->scan.at;
  if (!kind || !strchr("isv", kind))
    return shoal_scan_fail(&r->scan, "expected i, s, v, mesh, pin, stage, expand or decide");
  ++r->scan.at;
  return read_definition(r, kind);
}

shoal_status_t shoal_random_case_parse(const char *text, const shoal_registry_t *registry,
                                       shoal_arena_t *arena, shoal_random_case_t *out_case) {
  *out_case = (shoal_random_case_t){.ranks = 1, .steps = SHOAL_CASE_STEPS};
  case_reader_t r = {.arena = arena, .c = out_case, .registry = registry};
  shoal_scan_init("case", text, &r.scan);
  bool ok = read_head(&r);
  while (ok && shoal_scan_accept(&r.scan, ";") && !shoal_scan_at_end(&r.scan))
    ok = read_statement(&r);
  if (ok && !shoal_scan_at_end(&r.scan)) shoal_scan_fail(&r.scan, "expected ';'");
  return shoal_scan_status(&r.scan);
}
