// Shrinking: drop a pin, a stage, an expansion, an axis; drop a node (its readers read its first
// input, or a fresh input of the same type); make a dim smaller. Whatever still fails in the same
// way is kept; repeated until nothing helps. A change that makes no sense (labels beyond a dim that
// became smaller) fails otherwise.
#include "explore/shrink.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

#define MOST_TRIES 400

typedef struct shrinker {
  shoal_random_case_t *best;
  shoal_registry_t *registry;
  shoal_check_options_t with;
  shoal_arena_t *arena;
  const shoal_check_report_t *report;  // how it failed at first ...
  shoal_status_t first;                // ... and with which words
  shoal_status_t error;                // of the best so far, when it is not the given one
  int tries;
} shrinker_t;

// A copy with its own arrays.
static bool copy_case(shrinker_t *s, shoal_random_case_t *out) {
  *out = *s->best;
#define COPY(field)                                                                               \
  (out->field.capacity = out->field.count,                                                        \
   (out->field.items = shoal_arena_copy(s->arena, s->best->field.items, (size_t)out->field.count, \
                                        sizeof *out->field.items)) != NULL)
  return COPY(inputs) && COPY(states) && COPY(nodes) && COPY(meshes) && COPY(pins) &&
         COPY(stages) && COPY(expand) && COPY(decisions);
#undef COPY
}

#define DROP(vec, index)                                              \
  do {                                                                \
    memmove(&(vec).items[index], &(vec).items[(index) + 1],           \
            (size_t)((vec).count - (index)-1) * sizeof *(vec).items); \
    --(vec).count;                                                    \
  } while (0)

// ---- the same failure ---------------------------------------------------------------------------

// The next letter of a message, of `words` words at most; names in quotes and numbers differ from
// case to case.
static char next_letter(const char **at, int *words) {
  for (bool between = false;; ++*at) {
    char c = **at;
    if (c == '\'') {
      const char *end = strchr(*at + 1, '\'');
      if (end) *at = end;
      between = true;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || !c) {
      if (between && --*words == 0) return 0;
      if (c) ++*at;
      return c;
    } else {
      between = true;
    }
  }
}

static bool same_words(const char *a, const char *b) {
  for (int left = 6, right = 6;;) {
    char c = next_letter(&a, &left), d = next_letter(&b, &right);
    if (c != d || left != right) return false;
    if (!c) return true;
  }
}

// A value that differs is one by rounding or one for sure; of what differs, the first in program
// order is named, and that may be another one in a smaller case. All other failures have words of
// their own.
static bool same_failure(shrinker_t *s, const shoal_random_case_t *c,
                         const shoal_check_report_t *report, shoal_status_t status) {
  if (shoal_status_code(status) != shoal_status_code(s->first) || report->step != s->report->step)
    return false;
  if (report->step != SHOAL_CHECK_VALUES)
    return same_words(shoal_status_message(status), shoal_status_message(s->first));
  return (report->excess > 0) == (s->report->excess > 0) &&
         !shoal_random_case_was_rounding(c, s->registry, &s->with, report);
}

// Keeps `c` if it still fails: through its text, as a user would rerun it.
static bool try_case(shrinker_t *s, const shoal_random_case_t *c) {
  if (++s->tries > MOST_TRIES) return false;
  const char *text = NULL;
  shoal_random_case_t again;
  shoal_check_report_t report = {0};
  bool built = false;
  shoal_status_t status = shoal_random_case_print(c, s->arena, &text);
  if (!status) status = shoal_random_case_parse(text, s->registry, s->arena, &again);
  if (!status) {
    shoal_model_t *model = NULL;
    status = shoal_random_case_build(&again, s->registry, s->with.allocator, &model);
    built = !status;
    shoal_model_free(model);
  }
  if (built) status = shoal_random_case_check(&again, s->registry, &s->with, &report);
  if (!status || !built || report.refused || !same_failure(s, &again, &report, status)) {
    shoal_status_free(status);
    return false;
  }
  shoal_status_free(s->error);
  s->error = status;
  *s->best = again;
  return true;
}

// ---- changes: each tries one and says whether it was kept ---------------------------------------

static bool drop_pin(shrinker_t *s, int64_t i) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  DROP(c.pins, i);
  return try_case(s, &c);
}

static bool drop_stage(shrinker_t *s, int64_t i) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  DROP(c.stages, i);
  return try_case(s, &c);
}

static bool drop_expansion(shrinker_t *s, int64_t i) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  DROP(c.expand, i);
  return try_case(s, &c);
}

static bool drop_decision(shrinker_t *s, int64_t i) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  DROP(c.decisions, i);
  return try_case(s, &c);
}

// Nodes after `dropped` are renumbered in names like "v3/matmul" and "grad/v3/...".
static const char *renumber(shrinker_t *s, const char *name, int64_t dropped) {
  const char *at = strncmp(name, "grad/", 5) == 0 ? name + 5 : name;
  if ((*at != 'v' && *at != 't') || at[1] < '0' || at[1] > '9') return name;
  int64_t number = 0;
  const char *end = at + 1;
  while (*end >= '0' && *end <= '9') number = 10 * number + (*end++ - '0');
  if (number == dropped) return NULL;
  if (number < dropped) return name;
  return shoal_arena_printf(s->arena, "%.*s%c%lld%s", (int)(at - name), name, *at,
                            (long long)(number - 1), end);
}

static bool drop_node(shrinker_t *s, int64_t i) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  const shoal_case_node_t gone = c.nodes.items[i];
  shoal_case_ref_t instead = {.kind = 0};
  bool read = false;
  for (int64_t n = i + 1; n < c.nodes.count; ++n)
    for (int32_t r = 0; r < c.nodes.items[n].ref_count; ++r)
      read |= c.nodes.items[n].refs[r].kind == 'v' && c.nodes.items[n].refs[r].index == i;
  for (int32_t r = 0; r < gone.ref_count && read && !instead.kind; ++r) {
    shoal_type_t type;
    if (shoal_random_case_type(&c, gone.refs[r], &type) && type.dtype == gone.outputs[0].dtype &&
        shoal_shape_equal(&type.shape, &gone.outputs[0].shape))
      instead = gone.refs[r];
  }
  if (read && !instead.kind) {
    shoal_case_input_t input = {.type = gone.outputs[0],
                                .limit = shoal_dtype_is_float(gone.outputs[0].dtype) ? 0 : 2};
    instead = (shoal_case_ref_t){.kind = 'i', .index = (int32_t)c.inputs.count};
    if (!SHOAL_PUSH(s->arena, &c.inputs, input)) return false;
  }
  DROP(c.nodes, i);
  for (int64_t n = i; n < c.nodes.count; ++n)
    for (int32_t r = 0; r < c.nodes.items[n].ref_count; ++r) {
      shoal_case_ref_t *ref = &c.nodes.items[n].refs[r];
      if (ref->kind != 'v' || ref->index < i) continue;
      if (ref->index == i)
        *ref = instead;
      else
        --ref->index;
    }
  for (int64_t k = c.pins.count; k-- > 0;)
    if (!(c.pins.items[k].pattern = renumber(s, c.pins.items[k].pattern, i))) DROP(c.pins, k);
  for (int64_t k = c.stages.count; k-- > 0;)
    if (!(c.stages.items[k].pattern = renumber(s, c.stages.items[k].pattern, i))) DROP(c.stages, k);
  for (int64_t k = c.expand.count; k-- > 0;)
    if (!(c.expand.items[k] = renumber(s, c.expand.items[k], i))) DROP(c.expand, k);
  return try_case(s, &c);
}

// Drops input or state `i` if no node reads it.
static bool drop_unused(shrinker_t *s, char kind, int64_t i) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  for (int64_t n = 0; n < c.nodes.count; ++n)
    for (int32_t r = 0; r < c.nodes.items[n].ref_count; ++r) {
      shoal_case_ref_t *ref = &c.nodes.items[n].refs[r];
      if (ref->kind != kind) continue;
      if (ref->index == i) return false;
      ref->index -= ref->index > i;
    }
  if (kind == 'i')
    DROP(c.inputs, i);
  else
    DROP(c.states, i);
  for (int64_t k = c.pins.count; k-- > 0;) {
    shoal_intent_entry_t *pin = &c.pins.items[k];
    const char *rest = pin->pattern + 1;
    int64_t number = 0;
    if (pin->pattern[0] != kind || *rest < '0' || *rest > '9') continue;
    for (; *rest >= '0' && *rest <= '9'; ++rest) number = 10 * number + (*rest - '0');
    if (number == i) {
      DROP(c.pins, k);
      continue;
    }
    pin->pattern =
        shoal_arena_printf(s->arena, "%c%lld%s", kind, (long long)(number - (number > i)), rest);
    if (!pin->pattern) return false;
  }
  return try_case(s, &c);
}

// Every dim of length `from` becomes `to`, in shapes and in attributes' lists.
static bool change_size(shrinker_t *s, int64_t from, int64_t to) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  bool changed = false;
  for (int64_t i = 0; i < c.inputs.count + c.states.count; ++i) {
    shoal_shape_t *shape = i < c.inputs.count ? &c.inputs.items[i].type.shape
                                              : &c.states.items[i - c.inputs.count].shape;
    for (int32_t d = 0; d < shape->rank; ++d)
      if (shape->dims[d] == from) shape->dims[d] = to, changed = true;
  }
  for (int64_t n = 0; n < c.nodes.count; ++n) {
    const char *attrs = c.nodes.items[n].attrs;
    const char *list = strstr(attrs, "shape=[");
    if (!list) list = strstr(attrs, "size=[");
    if (!list) continue;
    list = strchr(list, '[') + 1;
    char *out = shoal_arena_printf(s->arena, "%.*s", (int)(list - attrs), attrs);
    for (const char *at = list; out && *at && *at != ']';) {
      size_t length = strcspn(at, ",]");
      int64_t number = 0;
      for (size_t k = 0; k < length; ++k) number = 10 * number + (at[k] - '0');
      out = shoal_arena_printf(s->arena, "%s%lld%s", out, (long long)(number == from ? to : number),
                               at[length] == ',' ? "," : "");
      at += length + (at[length] == ',');
      list = at;
    }
    if (!out || !(c.nodes.items[n].attrs = shoal_arena_printf(s->arena, "%s%s", out, list)))
      return false;
  }
  return changed && try_case(s, &c);
}

static bool change_flags(shrinker_t *s, int which) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  if (which == 0 && c.eval)
    c.eval = false;
  else if (which == 1 && c.opaque)
    c.opaque = false;
  else if (which == 2 && c.processes)
    c.processes = false;
  else if (which == 3 && c.optimizer != SHOAL_CASE_SGD)
    c.optimizer = SHOAL_CASE_SGD;
  else if (which == 4 && c.optimizer == SHOAL_CASE_SGD)
    c.optimizer = SHOAL_CASE_NONE;
  else if (which == 5 && c.steps != SHOAL_CASE_STEPS)
    c.steps = SHOAL_CASE_STEPS;
  else if (which == 6 && c.untrained)
    c.untrained = false;
  else if (which == 7 && c.guarded)
    c.guarded = false;
  else if (which == 8 && c.blocks > 0)
    c.blocks = 0;
  else if (which == 9 && (c.clipped || c.clipped_before || c.averaged || c.scaled))
    c.clipped = c.clipped_before = c.averaged = c.scaled = false;
  else
    return false;
  return try_case(s, &c);
}

// Without micro-batches; with fewer ranks on the first axis.
static bool change_mesh(shrinker_t *s, int64_t i, bool micro) {
  shoal_random_case_t c;
  if (!copy_case(s, &c)) return false;
  if (micro) {
    for (int64_t m = 0; m < c.meshes.count; ++m) {
      const char *text = c.meshes.items[m], *at = strstr(text, ",micro=");
      if (!at) return false;
      const char *end = at + 7 + strspn(at + 7, "0123456789");
      if (!(c.meshes.items[m] =
                shoal_arena_printf(s->arena, "%.*s%s", (int)(at - text), text, end)))
        return false;
    }
    for (int64_t k = 0; k < c.pins.count; ++k) {
      char *value = shoal_arena_strdup(s->arena, c.pins.items[k].value);
      char *at = value ? strstr(value, "micro:") : NULL;  // and one digit
      if (!at) continue;
      size_t drop = at[7] == ',' ? 8 : 7;
      memmove(at, at + drop, strlen(at + drop) + 1);
      c.pins.items[k].value = value;
    }
    return try_case(s, &c);
  }
  shoal_mesh_t mesh;
  shoal_status_t status = shoal_mesh_parse(c.meshes.items[i], s->arena, &mesh);
  if (status || c.meshes.count > 1 || mesh.ranks || mesh.axis_count < 1) {
    shoal_status_free(status);
    return false;
  }
  for (int32_t a = 0; a < mesh.axis_count; ++a) {
    if (mesh.axes[a].size < 2) continue;
    --mesh.axes[a].size;
    c.ranks = shoal_mesh_size(&mesh);
    status = shoal_mesh_print(&mesh, s->arena, &c.meshes.items[i]);
    if (!status && try_case(s, &c)) return true;
    shoal_status_free(status);
    ++mesh.axes[a].size;
  }
  return false;
}

static bool drop_constraint(shrinker_t *s, int64_t i) {
  shoal_random_case_t c;
  if (!s->best->nodes.items[i].held || !copy_case(s, &c)) return false;
  c.nodes.items[i].held = NULL;
  return try_case(s, &c);
}

// One sweep over everything; true if something was kept.
static bool sweep(shrinker_t *s) {
  bool any = false;
  for (int64_t i = s->best->nodes.count; i-- > 0;)
    any |= i < s->best->nodes.count && drop_node(s, i);
  for (int64_t i = s->best->nodes.count; i-- > 0;) any |= drop_constraint(s, i);
  for (int64_t i = s->best->pins.count; i-- > 0;) any |= i < s->best->pins.count && drop_pin(s, i);
  for (int64_t i = s->best->stages.count; i-- > 0;)
    any |= i < s->best->stages.count && drop_stage(s, i);
  for (int64_t i = s->best->expand.count; i-- > 0;)
    any |= i < s->best->expand.count && drop_expansion(s, i);
  for (int64_t i = s->best->decisions.count; i-- > 0;)
    any |= i < s->best->decisions.count && drop_decision(s, i);
  for (int64_t i = s->best->inputs.count; i-- > 0;) any |= drop_unused(s, 'i', i);
  for (int64_t i = s->best->states.count; i-- > 0;) any |= drop_unused(s, 's', i);
  for (int which = 0; which < 10; ++which) any |= change_flags(s, which);
  any |= change_mesh(s, 0, true);
  for (int64_t m = 0; m < s->best->meshes.count; ++m) any |= change_mesh(s, m, false);
  for (int64_t from = 9; from > 1; --from)
    any |= change_size(s, from, 1) || change_size(s, from, from - 1);
  return any;
}

void shoal_shrink_case(shoal_random_case_t *c, shoal_registry_t *registry,
                       const shoal_check_options_t *with, const shoal_check_report_t *report,
                       shoal_status_t status, shoal_arena_t *arena, shoal_status_t *out_status) {
  shrinker_t s = {.best = c,
                  .registry = registry,
                  .with = *with,
                  .arena = arena,
                  .report = report,
                  .first = status};
  while (s.tries < MOST_TRIES && sweep(&s)) continue;
  *out_status = s.error;
}
