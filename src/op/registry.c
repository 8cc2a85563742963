// The table of ops: native ones (ops.inc), then the user's. Records are found by qualified name.
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/locale.h"
#include "base/status.h"
#include "base/text.h"
#include "op/aliases.h"
#include "op/operands.h"
#include "shoal/op.h"
#include "shoal/options.h"

#define SHOAL_OP_FAMILY(title)
#define SHOAL_OP(name) extern const shoal_op_t shoal_op_##name;
#include "op/ops.inc"
#undef SHOAL_OP

static const shoal_op_t *const native_ops[] = {
#define SHOAL_OP(name) &shoal_op_##name,
#include "op/ops.inc"
#undef SHOAL_OP
#undef SHOAL_OP_FAMILY
};
#define NATIVE_COUNT ((int64_t)(sizeof native_ops / sizeof native_ops[0]))

struct shoal_registry {
  shoal_allocator_t allocator;
  _Atomic int64_t references;
  int64_t count, capacity;
  const shoal_op_t **ops;  // from NATIVE_COUNT on: owned copies
  const char **names;      // the same, for suggestions
};

static void *allocate(const shoal_registry_t *registry, size_t size) {
  return registry->allocator.alloc(registry->allocator.self, size);
}

static void release_memory(const shoal_registry_t *registry, const void *memory) {
  if (memory) registry->allocator.free(registry->allocator.self, (void *)memory);
}

// Room for one more op.
static shoal_status_t reserve(shoal_registry_t *registry) {
  if (registry->count < registry->capacity) return NULL;
  const int64_t capacity = registry->capacity ? 2 * registry->capacity : NATIVE_COUNT + 8;
  const shoal_op_t **ops = allocate(registry, (size_t)capacity * sizeof *ops);
  const char **names = allocate(registry, (size_t)capacity * sizeof *names);
  if (!ops || !names) {
    release_memory(registry, ops);
    release_memory(registry, names);
    return SHOAL_OOM();
  }
  if (registry->count) {
    memcpy(ops, registry->ops, (size_t)registry->count * sizeof *ops);
    memcpy(names, registry->names, (size_t)registry->count * sizeof *names);
  }
  release_memory(registry, registry->ops);
  release_memory(registry, registry->names);
  registry->ops = ops;
  registry->names = names;
  registry->capacity = capacity;
  return NULL;
}

static void add(shoal_registry_t *registry, const shoal_op_t *op) {
  registry->ops[registry->count] = op;
  registry->names[registry->count++] = op->name;
}

shoal_status_t shoal_registry_create(shoal_allocator_t allocator, shoal_registry_t **out_registry) {
  shoal_registry_t *registry = allocator.alloc(allocator.self, sizeof *registry);
  if (!registry) return SHOAL_OOM();
  *registry = (shoal_registry_t){.allocator = allocator, .references = 1};
  shoal_status_t status = reserve(registry);
  if (status) {
    shoal_registry_release(registry);
    return status;
  }
  for (int64_t i = 0; i < NATIVE_COUNT; ++i) add(registry, native_ops[i]);
  *out_registry = registry;
  return NULL;
}

void shoal_registry_retain(shoal_registry_t *registry) {
  atomic_fetch_add(&registry->references, 1);
}

void shoal_registry_release(shoal_registry_t *registry) {
  if (!registry || atomic_fetch_sub(&registry->references, 1) != 1) return;
  for (int64_t i = NATIVE_COUNT; i < registry->count; ++i) {
    release_memory(registry, registry->ops[i]);
  }
  release_memory(registry, registry->ops);
  release_memory(registry, registry->names);
  const shoal_allocator_t allocator = registry->allocator;
  allocator.free(allocator.self, registry);
}

static const shoal_op_t *lookup(const shoal_registry_t *registry, const char *name) {
  for (int64_t i = 0; i < registry->count; ++i) {
    if (strcmp(registry->names[i], name) == 0) return registry->ops[i];
  }
  return NULL;
}

// Does the role fit the kind, and does the operand exist?
static shoal_status_t check_attr(const shoal_op_t *op, const shoal_attr_schema_t *attr) {
  if (!attr->name || !attr->name[0]) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "op '%s' has an attribute without a name", op->name);
  }
  bool fits = true;
  switch (attr->role) {
    case SHOAL_ROLE_PLAIN:
      fits = attr->kind != SHOAL_ATTR_PLACE;
      break;
    case SHOAL_ROLE_SIZE:
    case SHOAL_ROLE_POSITION:
      fits = attr->kind == SHOAL_ATTR_INTS || attr->kind == SHOAL_ATTR_INT;
      break;
    case SHOAL_ROLE_PLACE:
      fits = attr->kind == SHOAL_ATTR_PLACE;
      break;
    case SHOAL_ROLE_COUNT:
      fits = attr->kind == SHOAL_ATTR_INT;
      break;
    case SHOAL_ROLE_POSITIONS:  // along a dim that another attribute names
      fits = attr->kind == SHOAL_ATTR_INTS && attr->dim >= 0 && attr->dim < op->attr_count &&
             op->attrs[attr->dim].kind == SHOAL_ATTR_INT &&
             op->attrs[attr->dim].role == SHOAL_ROLE_PLAIN;
      break;
  }
  if (!fits) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "op '%s': attribute '%s' has a role that its kind can't have", op->name,
                       attr->name);
  }
  if (attr->role == SHOAL_ROLE_PLAIN || attr->role == SHOAL_ROLE_COUNT) return NULL;
  const int32_t index = attr->operand < 0 ? SHOAL_OUTPUT(attr->operand) : attr->operand;
  if (index >= (attr->operand < 0 ? op->output_count : op->input_count)) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "op '%s': attribute '%s' speaks of %s %d, which it does not have", op->name,
                       attr->name, attr->operand < 0 ? "output" : "input", index);
  }
  return NULL;
}

// Does the op have the attribute that a field of its record names?
static shoal_status_t check_field(const shoal_op_t *op, const char *field, const char *name,
                                  shoal_attr_kind_t kind) {
  if (!name || !name[0]) return NULL;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == kind && strcmp(op->attrs[i].name, name) == 0) return NULL;
  }
  return SHOAL_ERROR(INVALID_ARGUMENT, "op '%s': `%s` names '%s', which is no attribute %s of it",
                     op->name, field, name,
                     kind == SHOAL_ATTR_INT ? "(an integer)" : "(a list of integers)");
}

// Inputs that may be left out are named by an attribute.
static shoal_status_t check_optional(const shoal_op_t *op) {
  if (op->optional == 0) return NULL;
  if (op->optional < 0 || op->optional > op->input_count || op->variadic) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "op '%s' has %d optional inputs: more than there are, or variadic ones",
                       op->name, op->optional);
  }
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *attr = &op->attrs[i];
    if (attr->kind == SHOAL_ATTR_STRING && strcmp(attr->name, SHOAL_WITH) == 0 && attr->optional &&
        attr->fallback.s && !attr->fallback.s[0]) {
      return NULL;
    }
  }
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT, "give it the attribute 'with': an optional string, \"\" by default",
      "op '%s' has optional inputs, and no attribute that names those given", op->name);
}

shoal_status_t shoal_op_register(shoal_registry_t *registry, const shoal_op_t *op) {
  if (!op || !op->name || !strchr(op->name, '.')) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name it like 'user.my_op'",
                            "an op needs a qualified name, not '%s'",
                            op && op->name ? op->name : "");
  }
  if (!op->infer) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "op '%s' needs a function `infer` for its outputs' types",
                       op->name);
  }
  if (op->output_count < 1 || op->input_count < 0 || op->attr_count < 0 ||
      op->overwrite_count < 0 || !op->outputs || (op->input_count && !op->inputs) ||
      (op->attr_count && !op->attrs) || (op->overwrite_count && !op->overwrites) ||
      (op->variadic && !op->input_count)) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "op '%s' needs at least one output, and names for all it counts", op->name);
  }
  for (int32_t i = 0; i < op->attr_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_attr(op, &op->attrs[i]));
  }
  SHOAL_RETURN_IF_ERROR(check_field(op, "window", op->window, SHOAL_ATTR_INTS));
  SHOAL_RETURN_IF_ERROR(check_field(op, "spare", op->spare, SHOAL_ATTR_INT));
  if (op->spare && !op->index_count) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "op '%s' has a `spare` index, but no `index_count`",
                       op->name);
  }
  SHOAL_RETURN_IF_ERROR(check_optional(op));
  for (int32_t i = 0; i < op->overwrite_count; ++i) {
    const shoal_overwrite_t *pair = &op->overwrites[i];
    if (pair->output >= 0 && pair->output < op->output_count && pair->input >= 0 &&
        pair->input < op->input_count) {
      continue;
    }
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "op '%s' says that output %d may overwrite input %d, and lacks one of them",
                       op->name, pair->output, pair->input);
  }
  if (lookup(registry, op->name)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "op '%s' exists already", op->name);
  }
  SHOAL_RETURN_IF_ERROR(reserve(registry));
  shoal_op_t *copy = allocate(registry, sizeof *copy);
  if (!copy) return SHOAL_OOM();
  *copy = *op;
  add(registry, copy);
  return NULL;
}

shoal_status_t shoal_op_find(const shoal_registry_t *registry, const char *name,
                             const shoal_op_t **out_op) {
  const shoal_op_t *op = lookup(registry, name);
  if (op) {
    *out_op = op;
    return NULL;
  }
  shoal_hint_t hint;
  const char *alias = shoal_op_alias(name);
  if (alias) {
    shoal_format(hint.text, sizeof hint.text, "here that is %s", alias);
    return SHOAL_ERROR_HINT(NOT_FOUND, hint.text, "there is no op '%s'", name);
  }
  return SHOAL_ERROR_HINT(NOT_FOUND,
                          shoal_did_you_mean(name, registry->names, registry->count,
                                             "`shoal ops` lists them all", &hint),
                          "there is no op '%s'", name);
}

int64_t shoal_registry_count(const shoal_registry_t *registry) {
  return registry->count;
}

const shoal_op_t *shoal_registry_op(const shoal_registry_t *registry, int64_t index) {
  return index >= 0 && index < registry->count ? registry->ops[index] : NULL;
}
