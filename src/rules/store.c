// The store: rules by signature (op, attributes on the whole, input types). A rule is discovered
// when it is first asked for and then never changes or moves: equal calls get the same object.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"
#include "rules/search.h"

enum { BUCKETS = 1024 };

typedef struct entry {
  struct entry *next;
  uint64_t hash;
  const char *signature;
  uint64_t text_hash;  // of the rule, printed
  shoal_rule_t rule;
} entry_t;

struct shoal_rules {
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  shoal_executor_t executor;
  entry_t *buckets[BUCKETS];
};

shoal_status_t shoal_rules_create(shoal_allocator_t allocator, shoal_rules_t **out_rules) {
  if (!allocator.alloc) allocator = shoal_allocator_system();
  shoal_rules_t *rules = allocator.alloc(allocator.self, sizeof *rules);
  if (!rules) return SHOAL_OOM();
  memset(rules, 0, sizeof *rules);
  rules->allocator = allocator;
  shoal_arena_init(allocator, &rules->arena);
  rules->executor = shoal_executor_reference(&rules->allocator);
  *out_rules = rules;
  return NULL;
}

void shoal_rules_free(shoal_rules_t *rules) {
  if (!rules) return;
  shoal_allocator_t allocator = rules->allocator;
  shoal_arena_deinit(&rules->arena);
  allocator.free(allocator.self, rules);
}

void shoal_rules_set_executor(shoal_rules_t *rules, shoal_executor_t executor) {
  rules->executor = executor.execute ? executor : shoal_executor_reference(&rules->allocator);
}

// ---- signatures --------------------------------------------------------------------------------

static void put_attr(shoal_text_t *text, shoal_attr_kind_t kind, const shoal_attr_value_t *value) {
  switch (kind) {
    case SHOAL_ATTR_INT:
    case SHOAL_ATTR_DTYPE:
      shoal_text_addf(text, " %lld", (long long)value->i);
      break;
    case SHOAL_ATTR_INTS:
      shoal_text_add(text, " [");
      for (int32_t i = 0; i < value->count; ++i)
        shoal_text_addf(text, "%lld,", (long long)value->ints[i]);
      shoal_text_add(text, "]");
      break;
    case SHOAL_ATTR_REAL:
      shoal_text_add(text, " ");
      shoal_text_add_double(text, value->f);
      break;
    case SHOAL_ATTR_STRING:
      shoal_text_add(text, " ");
      shoal_text_add_quoted(text, value->s ? value->s : "");
      break;
    case SHOAL_ATTR_PLACE:
      break;  // of the whole
  }
}

static shoal_status_t put_signature(const shoal_call_t *call, shoal_text_t *text) {
  const shoal_op_t *op = call->op;
  shoal_text_add(text, op->name);
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_PLACE && call->attrs[i].place) {
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "%s: a rule is of a call on the whole, '%s' speaks of a part", op->name,
                         op->attrs[i].name);
    }
    put_attr(text, op->attrs[i].kind, &call->attrs[i]);
  }
  for (int32_t i = 0; i < call->input_count; ++i) {
    const shoal_type_t *type = &call->inputs[i];
    shoal_text_addf(text, " %s(", shoal_dtype_name(type->dtype));
    for (int32_t d = 0; d < type->shape.rank; ++d) {
      shoal_text_addf(text, "%lld,", (long long)type->shape.dims[d]);
    }
    shoal_text_add(text, ")");
  }
  return shoal_text_status(text);
}

static entry_t *find(const shoal_rules_t *rules, const char *signature, uint64_t hash) {
  entry_t *entry = rules->buckets[hash % BUCKETS];
  while (entry && (entry->hash != hash || strcmp(entry->signature, signature))) entry = entry->next;
  return entry;
}

static shoal_status_t add(shoal_rules_t *rules, const shoal_call_t *call, const char *signature,
                          uint64_t hash, entry_t **out_entry) {
  entry_t *entry = SHOAL_NEW(&rules->arena, entry_t, 1);
  if (!entry || !(entry->signature = shoal_arena_strdup(&rules->arena, signature)))
    return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_rules_discover(call, RULES_LIKENESS_IF_LARGE, rules->executor,
                                             rules->allocator, &rules->arena, &entry->rule));
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_rule_print(call->op, &entry->rule, &rules->arena, &text));
  entry->text_hash = shoal_hash_string(SHOAL_HASH_START, text);
  entry->hash = hash;
  entry->next = rules->buckets[hash % BUCKETS];
  rules->buckets[hash % BUCKETS] = entry;
  *out_entry = entry;
  return NULL;
}

// Finds the call's entry; discovers it if `discover`, else leaves *out_entry NULL.
static shoal_status_t look_up(shoal_rules_t *rules, const shoal_call_t *call, bool discover,
                              entry_t **out_entry) {
  shoal_text_t text;
  shoal_text_init(rules->allocator, &text);
  shoal_status_t status = put_signature(call, &text);
  if (!status) {
    const char *signature = shoal_text_string(&text);
    uint64_t hash = shoal_hash_string(SHOAL_HASH_START, signature);
    *out_entry = find(rules, signature, hash);
    if (!*out_entry && discover) status = add(rules, call, signature, hash, out_entry);
  }
  shoal_text_deinit(&text);
  return status;
}

shoal_status_t shoal_rules_get(shoal_rules_t *rules, const shoal_call_t *call,
                               const shoal_rule_t **out_rule) {
  entry_t *entry = NULL;
  SHOAL_RETURN_IF_ERROR(look_up(rules, call, true, &entry));
  *out_rule = &entry->rule;
  return NULL;
}

// ---- hash --------------------------------------------------------------------------------------

shoal_status_t shoal_rules_hash(shoal_rules_t *rules, const shoal_model_t *model,
                                uint64_t *out_hash) {
  uint64_t hash = SHOAL_HASH_START;
  shoal_arena_t scratch;
  shoal_arena_init(rules->allocator, &scratch);
  shoal_status_t status = NULL;
  for (int64_t g = 0; !status && g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; !status && n < graph->nodes.count; ++n) {
      shoal_call_t call;
      entry_t *entry = NULL;
      status = shoal_node_call(graph, &graph->nodes.items[n], &scratch, &call);
      if (!status) status = look_up(rules, &call, false, &entry);
      if (status || !entry) continue;
      hash = shoal_hash_int(hash, (int64_t)entry->text_hash);
    }
  }
  shoal_arena_deinit(&scratch);
  if (!status) *out_hash = hash;
  return status;
}
