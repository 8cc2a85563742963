// The store: rules by call, and by key.
//
// A call (op, attributes, types on the whole) is looked up by its hash; equal calls get the same
// object, which never changes or moves. A call seen for the first time is resolved (resolve.c): the
// rule of the small call that stands for it is looked up by its key, here and among those that came
// with the build, and discovered if it is in neither.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "graph/graph.h"
#include "op/attrs.h"
#include "rules/resolve.h"
#include "rules/search.h"
#include "rules/symbols.h"

typedef struct call_entry {
  uint64_t hash;
  const char *op;
  int32_t attr_count;
  shoal_call_t call;  // what it is compared by; its registry may be gone
  bool printed;
  uint64_t text_hash;  // of the rule, printed
  shoal_rule_t rule;
} call_entry_t;

typedef struct key_entry {
  uint64_t hash;
  shoal_keyed_rule_t rule;
} key_entry_t;

// Open addressing; the entries begin with their hash.
typedef struct table {
  int64_t count, capacity;  // a power of two
  uint64_t **slots;
} table_t;

struct shoal_rules {
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  shoal_executor_t executor;
  bool ignores_shipped;
  table_t calls, keys;
  SHOAL_VEC(const key_entry_t *) known;  // in the order in which they were asked for
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

void shoal_rules_ignore_shipped(shoal_rules_t *rules) {
  rules->ignores_shipped = true;
}

const shoal_keyed_rule_t *shoal_rules_known(const shoal_rules_t *rules, int64_t index) {
  return index < rules->known.count ? &rules->known.items[index]->rule : NULL;
}

// ---- tables ------------------------------------------------------------------------------------

static void put(table_t *table, uint64_t *entry) {
  uint64_t at = *entry;
  while (table->slots[at & (uint64_t)(table->capacity - 1)]) ++at;
  table->slots[at & (uint64_t)(table->capacity - 1)] = entry;
}

// Makes room for one more; false when memory is short.
static bool reserve(table_t *table, shoal_arena_t *arena) {
  if (2 * (table->count + 1) <= table->capacity) return true;
  table_t wider = {.count = table->count, .capacity = table->capacity ? 2 * table->capacity : 64};
  wider.slots = SHOAL_NEW(arena, uint64_t *, wider.capacity);
  if (!wider.slots) return false;
  for (int64_t i = 0; i < table->capacity; ++i) {
    if (table->slots[i]) put(&wider, table->slots[i]);
  }
  *table = wider;
  return true;
}

// The next entry of that hash from *at on, which starts at the hash; NULL behind the last.
static void *next(const table_t *table, uint64_t hash, uint64_t *at) {
  while (table->capacity) {
    uint64_t *entry = table->slots[(*at)++ & (uint64_t)(table->capacity - 1)];
    if (!entry || *entry == hash) return entry;
  }
  return NULL;
}

// ---- rules by key ------------------------------------------------------------------------------

static bool is_native(const shoal_op_t *op) {
  return strncmp(op->name, "shoal.", strlen("shoal.")) == 0;
}

shoal_status_t shoal_rules_discover_here(const shoal_call_t *call,
                                         const shoal_rules_second_t *second,
                                         shoal_executor_t executor, shoal_allocator_t allocator,
                                         shoal_arena_t *arena, shoal_keyed_rule_t *out) {
  shoal_rule_t rule;
  SHOAL_RETURN_IF_ERROR(shoal_rules_discover(call, executor, allocator, arena, &rule));
  out->way_count = rule.way_count;
  out->ways = rule.ways;
  out->note = rule.note;
  if (second && out->way_count > 0) {
    SHOAL_RETURN_IF_ERROR(shoal_rules_verify_second(second, executor, allocator, arena, out));
  }
  if (is_native(call->op) || out->way_count == 0) return NULL;
  return shoal_rules_verify(call, executor, allocator, arena, out);
}

static shoal_status_t discover(shoal_rules_t *rules, const shoal_call_t *call,
                               const shoal_rules_second_t *second, shoal_keyed_rule_t *out) {
  const bool apart = call->op->kernel && !is_native(call->op) &&
                     rules->executor.execute == shoal_executor_reference(NULL).execute;
  return (apart ? shoal_rules_discover_apart : shoal_rules_discover_here)(
      call, second, rules->executor, rules->allocator, &rules->arena, out);
}

// Which rules come with the build is only said of ops that the build has kernels of.
static shoal_status_t make_rule(shoal_rules_t *rules, const shoal_call_t *call,
                                const shoal_rules_second_t *second, shoal_keyed_rule_t *out) {
  if (call->op->kernel && !rules->ignores_shipped) {
    SHOAL_RETURN_IF_ERROR(shoal_rules_find_shipped(call, &rules->arena, out));
  }
  return out->shipped ? NULL : discover(rules, call, second, out);
}

shoal_status_t shoal_rules_of_key(shoal_rules_t *rules, const shoal_call_t *call,
                                  const shoal_rules_second_t *second, const char *key,
                                  const shoal_keyed_rule_t **out_rule) {
  uint64_t hash = shoal_hash_string(SHOAL_HASH_START, key), at = hash;
  key_entry_t *entry;
  while ((entry = next(&rules->keys, hash, &at)) && strcmp(entry->rule.key, key)) {
  }
  if (!entry) {
    shoal_arena_t *arena = &rules->arena;
    entry = SHOAL_NEW(arena, key_entry_t, 1);
    if (!entry || !(entry->rule.key = shoal_arena_strdup(arena, key)) ||
        !(entry->rule.op = shoal_arena_strdup(arena, call->op->name)) ||
        !(entry->rule.attrs = shoal_attrs_copy(call->op, call->attrs, arena))) {
      return SHOAL_OOM();
    }
    SHOAL_RETURN_IF_ERROR(make_rule(rules, call, second, &entry->rule));
    if (!reserve(&rules->keys, arena) || !SHOAL_PUSH(arena, &rules->known, entry))
      return SHOAL_OOM();
    entry->hash = hash;
    put(&rules->keys, &entry->hash);
    ++rules->keys.count;
  }
  *out_rule = &entry->rule;
  return NULL;
}

// ---- rules by call -----------------------------------------------------------------------------

static uint64_t hash_attr(uint64_t hash, shoal_attr_kind_t kind, const shoal_attr_value_t *value) {
  switch (kind) {
    case SHOAL_ATTR_INT:
    case SHOAL_ATTR_DTYPE:
      return shoal_hash_int(hash, value->i);
    case SHOAL_ATTR_INTS:
      hash = shoal_hash_int(hash, value->count);
      for (int32_t i = 0; i < value->count; ++i)
        hash = shoal_hash_int(hash, shoal_attr_list(value)[i]);
      return hash;
    case SHOAL_ATTR_REAL: {
      int64_t bits;
      memcpy(&bits, &value->f, sizeof bits);
      return shoal_hash_int(hash, bits);
    }
    case SHOAL_ATTR_STRING:
      return shoal_hash_string(hash, value->s ? value->s : "");
    case SHOAL_ATTR_PLACE:
      break;  // of the whole
  }
  return hash;
}

static bool same_attr(shoal_attr_kind_t kind, const shoal_attr_value_t *a,
                      const shoal_attr_value_t *b) {
  switch (kind) {
    case SHOAL_ATTR_INT:
    case SHOAL_ATTR_DTYPE:
      return a->i == b->i;
    case SHOAL_ATTR_INTS:
      return shoal_attr_same_ints(a, b);
    case SHOAL_ATTR_REAL:
      return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case SHOAL_ATTR_STRING:
      return strcmp(a->s ? a->s : "", b->s ? b->s : "") == 0;
    case SHOAL_ATTR_PLACE:
      break;
  }
  return true;
}

static uint64_t hash_call(const shoal_call_t *call) {
  uint64_t hash = shoal_hash_string(SHOAL_HASH_START, call->op->name);
  for (int32_t i = 0; i < call->op->attr_count; ++i) {
    if (!symbols_is_stream_key(call->op, i))
      hash = hash_attr(hash, call->op->attrs[i].kind, &call->attrs[i]);
  }
  for (int32_t i = 0; i < call->input_count; ++i) {
    const shoal_type_t *type = &call->inputs[i];
    hash = shoal_hash_int(hash, (int64_t)type->dtype);
    hash = shoal_hash_int(hash, type->shape.rank);
    for (int32_t d = 0; d < type->shape.rank; ++d) hash = shoal_hash_int(hash, type->shape.dims[d]);
  }
  return hash;
}

static bool same_call(const call_entry_t *entry, const shoal_call_t *call) {
  if (entry->attr_count != call->op->attr_count || strcmp(entry->op, call->op->name)) return false;
  if (entry->call.input_count != call->input_count) return false;
  for (int32_t i = 0; i < call->op->attr_count; ++i) {
    if (symbols_is_stream_key(call->op, i)) continue;
    if (!same_attr(call->op->attrs[i].kind, &entry->call.attrs[i], &call->attrs[i])) return false;
  }
  for (int32_t i = 0; i < call->input_count; ++i) {
    const shoal_type_t *a = &entry->call.inputs[i], *b = &call->inputs[i];
    if (a->dtype != b->dtype || !shoal_shape_equal(&a->shape, &b->shape)) return false;
  }
  return true;
}

// Copies what the entry is compared by.
static bool copy_call(shoal_rules_t *rules, const shoal_call_t *call, call_entry_t *entry) {
  shoal_arena_t *arena = &rules->arena;
  shoal_attr_value_t *attrs = shoal_attrs_copy(call->op, call->attrs, arena);
  entry->op = shoal_arena_strdup(arena, call->op->name);
  entry->attr_count = call->op->attr_count;
  entry->call = (shoal_call_t){.input_count = call->input_count, .attrs = attrs};
  entry->call.inputs =
      shoal_arena_copy(arena, call->inputs, (size_t)call->input_count, sizeof *call->inputs);
  return attrs && entry->op && entry->call.inputs;
}

// The way that the record claims, which nothing verifies.
static shoal_status_t claim(shoal_rules_t *rules, const shoal_call_t *call, shoal_rule_t *rule) {
  shoal_keyed_rule_t claimed = {0};
  shoal_call_t whole = *call;
  if (!call->op->claimed) return NULL;
  shoal_type_t *types = SHOAL_NEW(&rules->arena, shoal_type_t, call->output_count);
  if (!types) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(call, types));
  whole.outputs = types;
  SHOAL_RETURN_IF_ERROR(shoal_rules_parse_ways(&whole, call->op->claimed, &rules->arena, &claimed));
  rule->claimed = claimed.ways;
  return NULL;
}

static shoal_status_t add(shoal_rules_t *rules, const shoal_call_t *call, uint64_t hash,
                          call_entry_t **out_entry) {
  call_entry_t *entry = SHOAL_NEW(&rules->arena, call_entry_t, 1);
  if (!entry || !copy_call(rules, call, entry)) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(
      shoal_rules_resolve(rules, call, rules->allocator, &rules->arena, &entry->rule));
  entry->rule.attrs = entry->call.attrs;
  SHOAL_RETURN_IF_ERROR(claim(rules, call, &entry->rule));
  if (!reserve(&rules->calls, &rules->arena)) return SHOAL_OOM();
  entry->hash = hash;
  put(&rules->calls, &entry->hash);
  ++rules->calls.count;
  *out_entry = entry;
  return NULL;
}

// Finds the call's entry; resolves it if `resolve`, else leaves *out_entry NULL.
static shoal_status_t look_up(shoal_rules_t *rules, const shoal_call_t *call, bool resolve,
                              call_entry_t **out_entry) {
  const shoal_op_t *op = call->op;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_PLACE && call->attrs[i].place) {
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "%s: a rule is of a call on the whole, '%s' speaks of a part", op->name,
                         op->attrs[i].name);
    }
  }
  uint64_t hash = hash_call(call), at = hash;
  while ((*out_entry = next(&rules->calls, hash, &at)) && !same_call(*out_entry, call)) {
  }
  return *out_entry || !resolve ? NULL : add(rules, call, hash, out_entry);
}

shoal_status_t shoal_rules_get(shoal_rules_t *rules, const shoal_call_t *call,
                               const shoal_rule_t **out_rule) {
  call_entry_t *entry = NULL;
  SHOAL_RETURN_IF_ERROR(look_up(rules, call, true, &entry));
  *out_rule = &entry->rule;
  return NULL;
}

// ---- hash --------------------------------------------------------------------------------------

static shoal_status_t print(const shoal_op_t *op, call_entry_t *entry, shoal_arena_t *scratch) {
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_rule_print(op, &entry->rule, scratch, &text));
  entry->text_hash = shoal_hash_string(SHOAL_HASH_START, text);
  entry->printed = true;
  return NULL;
}

shoal_status_t shoal_rules_hash(shoal_rules_t *rules, const shoal_model_t *model,
                                uint64_t *out_hash) {
  uint64_t hash = SHOAL_HASH_START;
  shoal_status_t status = NULL;
  for (int64_t g = 0; !status && g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; !status && n < graph->nodes.count; ++n) {
      shoal_arena_t scratch;
      shoal_call_t call;
      call_entry_t *entry = NULL;
      shoal_arena_init(rules->allocator, &scratch);
      status = shoal_node_call(graph, &graph->nodes.items[n], &scratch, &call);
      if (!status) status = look_up(rules, &call, false, &entry);
      if (!status && entry && !entry->printed) status = print(call.op, entry, &scratch);
      shoal_arena_deinit(&scratch);
      if (status || !entry) continue;
      hash = shoal_hash_int(hash, (int64_t)entry->text_hash);
    }
  }
  if (!status) *out_hash = hash;
  return status;
}
