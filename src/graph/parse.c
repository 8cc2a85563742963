// Reading a printed model (the form is shown in print.c). Any bytes are fit to be read: what is
// wrong is said with line and column, nothing is trusted - every node passes through append.c like
// a built one.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "graph/builder.h"
#include "op/text.h"

typedef struct parse {
  shoal_scan_t scan;
  shoal_model_t *model;
  shoal_graph_t *graph;  // the one being read, or NULL
  shoal_index_t nodes;   // of that graph, by name
  shoal_arena_t scratch;
  const char *counted;  // lines before here are in `line`
  int line;
} parse_t;

static int line_here(parse_t *p) {
  for (; p->counted < p->scan.at; ++p->counted) p->line += *p->counted == '\n';
  return p->line;
}

static bool check(parse_t *p, shoal_status_t status) {
  return shoal_scan_check(&p->scan, status);
}

static bool read_name(parse_t *p, const char **out_name) {
  const char *name;
  if (!shoal_scan_name(&p->scan, &p->scratch, &name)) return false;
  // the init graph has no scope open: this only checks the name, and makes the model's copy
  return check(p, shoal_name_join(p->model->graphs.items[0], name, out_name));
}

static bool read_state_line(parse_t *p) {
  shoal_state_info_t state = {.line = line_here(p)};
  shoal_init_t *init = &state.options.init;
  if (!read_name(p, &state.name) || !shoal_scan_type(&p->scan, &state.type)) return false;
  if (shoal_model_find_state(p->model, state.name) >= 0) {
    return shoal_scan_fail(&p->scan, "state '%s' is declared twice", state.name);
  }
  if (shoal_scan_accept(&p->scan, "fill")) {
    init->kind = SHOAL_INIT_FILL;
  } else if (shoal_scan_accept(&p->scan, "uniform")) {
    init->kind = SHOAL_INIT_UNIFORM;
  } else if (shoal_scan_accept(&p->scan, "normal")) {
    init->kind = SHOAL_INIT_NORMAL;
  } else if (shoal_scan_accept(&p->scan, "truncated_normal")) {
    init->kind = SHOAL_INIT_TRUNCATED_NORMAL;
  } else if (!shoal_scan_expect(&p->scan, "zeros")) {
    return false;
  }
  double *const numbers[] = {&init->a, &init->b, &init->low, &init->high};
  const int32_t count = shoal_init_numbers(init->kind);
  for (int32_t k = 0; k < count; ++k) {
    if (!shoal_scan_expect(&p->scan, k ? "," : "(") || !shoal_scan_double(&p->scan, numbers[k]))
      return false;
  }
  if (count && !shoal_scan_expect(&p->scan, ")")) return false;
  state.options.trainable = shoal_scan_accept(&p->scan, "trainable");
  state.options.not_saved = shoal_scan_accept(&p->scan, "not_saved");
  state.file = shoal_arena_strdup(&p->model->arena, p->scan.name);
  int32_t index;
  return check(p, state.file ? shoal_model_add_state(p->model, &state, &index) : SHOAL_OOM());
}

static bool read_value(parse_t *p, int32_t *out_id) {
  int64_t number;
  if (!shoal_scan_expect(&p->scan, "%") || !shoal_scan_int(&p->scan, &number)) return false;
  if (number < 0 || number >= p->graph->values.count) {
    return shoal_scan_fail(&p->scan, "%%%lld is not defined above", (long long)number);
  }
  *out_id = (int32_t)number;
  return true;
}

static bool read_inputs(parse_t *p, shoal_node_spec_t *spec) {
  SHOAL_VEC(int32_t) inputs = {0};
  if (!shoal_scan_expect(&p->scan, "(")) return false;
  if (!shoal_scan_accept(&p->scan, ")")) {
    do {
      int32_t id = -1;
      if (!read_value(p, &id)) return false;
      if (!SHOAL_PUSH(&p->scratch, &inputs, id)) return check(p, SHOAL_OOM());
    } while (shoal_scan_accept(&p->scan, ","));
    if (!shoal_scan_expect(&p->scan, ")")) return false;
  }
  spec->input_count = (int32_t)inputs.count;
  spec->inputs = inputs.items;
  return true;
}

// "weight_gradient of "fc1/einsum"": the node that was just read is not a forward one.
static bool read_kind(parse_t *p, shoal_node_t *node) {
  while (node->kind < SHOAL_NODE_KIND_COUNT &&
         !shoal_scan_accept(&p->scan, shoal_node_kind_name(node->kind))) {
    ++node->kind;
  }
  if (node->kind == SHOAL_NODE_KIND_COUNT) {
    node->kind = SHOAL_NODE_FORWARD;
    return true;
  }
  const char *name;
  if (!shoal_scan_accept(&p->scan, "of")) return true;
  if (!read_name(p, &name)) return false;
  uint64_t hash = shoal_hash_string(SHOAL_HASH_START, name);
  for (int64_t at = -1, i; (i = shoal_index_next(&p->nodes, hash, &at)) >= 0;) {
    if (strcmp(p->graph->nodes.items[i].name, name) == 0) node->of = (int32_t)i;
  }
  return node->of >= 0 || shoal_scan_fail(&p->scan, "there is no node '%s' above", name);
}

// "stage 1": the pipeline's stage that the node is asked to be in.
static bool read_stage(parse_t *p, shoal_node_t *node) {
  int64_t stage;
  if (!shoal_scan_accept(&p->scan, "stage")) return true;
  if (!shoal_scan_int(&p->scan, &stage)) return false;
  if (stage < 0 || stage >= SHOAL_MOST_STAGES)
    return shoal_scan_fail(&p->scan, "there is no stage %lld", (long long)stage);
  node->stage = (int32_t)stage + 1;
  return true;
}

// "split 8": how ranks are asked to share the node's work.
static bool read_sharing(parse_t *p, shoal_node_t *node) {
  for (shoal_share_t share = SHOAL_SHARE_REPLICATE; share < SHOAL_SHARE_COUNT; ++share) {
    int64_t ranks;
    if (!shoal_scan_accept(&p->scan, shoal_share_name(share))) continue;
    if (!shoal_scan_int(&p->scan, &ranks)) return false;
    if (ranks < 0 || ranks > SHOAL_MOST_SHARERS)
      return shoal_scan_fail(&p->scan, "%lld ranks cannot share a node", (long long)ranks);
    node->sharing = (shoal_sharing_t){share, (int32_t)ranks};
    break;
  }
  return true;
}

// "recompute 2": the region that the node is computed again with.
static bool read_recompute(parse_t *p, shoal_node_t *node) {
  int64_t region;
  if (!shoal_scan_accept(&p->scan, "recompute")) return true;
  if (!shoal_scan_int(&p->scan, &region)) return false;
  if (region < 0 || region >= SHOAL_MOST_REGIONS)
    return shoal_scan_fail(&p->scan, "there is no region %lld", (long long)region);
  if (node->kind != SHOAL_NODE_FORWARD)
    return shoal_scan_fail(&p->scan, "only nodes of the forward pass are computed again");
  node->recompute = (int32_t)region + 1;
  if (node->recompute > p->graph->builder->region_count)
    p->graph->builder->region_count = node->recompute;
  return true;
}

// From the quoted name on. `renames` has `count` entries, NULL where the value has its node's name.
static bool read_node(parse_t *p, int64_t count, const char *const *renames) {
  shoal_node_spec_t spec = {.purpose.of = -1, .file = p->scan.name, .line = line_here(p)};
  char op_name[256];
  if (!read_name(p, &spec.name) || !shoal_scan_expect(&p->scan, "=") ||
      !shoal_scan_word(&p->scan, op_name, sizeof op_name) ||
      !check(p, shoal_op_find(p->model->registry, op_name, &spec.op))) {
    return false;
  }
  shoal_attr_value_t *attrs;
  if (!read_inputs(p, &spec) ||
      !shoal_scan_attrs(&p->scan, "{", "}", spec.op, &p->scratch, &attrs)) {
    return false;
  }
  spec.attrs = attrs;
  const int32_t outputs = shoal_op_outputs(spec.op, attrs);
  if (outputs != count) {
    return shoal_scan_fail(&p->scan, "%s has %d outputs, not %lld", op_name, (int)outputs,
                           (long long)count);
  }
  int32_t *ids = SHOAL_NEW(&p->scratch, int32_t, count);
  if (!check(p, ids ? shoal_graph_append(p->graph, &spec, ids) : SHOAL_OOM())) return false;
  for (int64_t i = 0; i < count; ++i) {
    shoal_type_t type;
    if (!shoal_scan_expect(&p->scan, i ? "," : ":") || !shoal_scan_type(&p->scan, &type))
      return false;
    const shoal_type_t *inferred = &p->graph->values.items[ids[i]].type;
    if (!shoal_type_equal(&type, inferred)) {
      char made[SHOAL_TYPE_SIZE];
      return shoal_scan_fail(&p->scan, "%s gives %s here", op_name,
                             shoal_type_format(inferred, made, sizeof made));
    }
    if (renames[i] && !check(p, shoal_graph_rename(p->graph, ids[i], renames[i]))) return false;
  }
  int64_t index = p->graph->nodes.count - 1;
  if (!read_kind(p, &p->graph->nodes.items[index])) return false;
  if (!read_stage(p, &p->graph->nodes.items[index])) return false;
  if (!read_sharing(p, &p->graph->nodes.items[index])) return false;
  if (!read_recompute(p, &p->graph->nodes.items[index])) return false;
  uint64_t hash = shoal_hash_string(SHOAL_HASH_START, spec.name);
  return shoal_index_add(&p->nodes, hash, index) || check(p, SHOAL_OOM());
}

// "%3 = input ...", "%3 = state ...", "%3, %4 as "x" "name" = op(...)"
static bool read_value_line(parse_t *p) {
  SHOAL_VEC(const char *) renames = {0};
  do {
    int64_t number, next = p->graph->values.count + renames.count;
    const char *rename = NULL;
    if (!shoal_scan_expect(&p->scan, "%") || !shoal_scan_int(&p->scan, &number)) return false;
    if (number != next) {
      return shoal_scan_fail(&p->scan, "values are numbered in order: %%%lld is next",
                             (long long)next);
    }
    if (shoal_scan_accept(&p->scan, "as") && !read_name(p, &rename)) return false;
    if (!SHOAL_PUSH(&p->scratch, &renames, rename)) return check(p, SHOAL_OOM());
  } while (shoal_scan_accept(&p->scan, ","));
  if (shoal_scan_peek(&p->scan, "\"")) return read_node(p, renames.count, renames.items);
  if (renames.count != 1 || renames.items[0]) {
    return shoal_scan_fail(&p->scan, "expected a quoted name of the node");
  }
  const char *name;
  int32_t id;
  int line = line_here(p);
  if (!shoal_scan_expect(&p->scan, "=")) return false;
  if (shoal_scan_accept(&p->scan, "input")) {
    shoal_type_t type;
    return read_name(p, &name) && shoal_scan_type(&p->scan, &type) &&
           check(p, shoal_graph_add_input(p->graph, name, type, p->scan.name, line, &id));
  }
  if (!shoal_scan_expect(&p->scan, "state") || !read_name(p, &name)) return false;
  int32_t state = shoal_model_find_state(p->model, name);
  if (state < 0) return shoal_scan_fail(&p->scan, "there is no state '%s'", name);
  int64_t before = p->graph->values.count;
  if (!check(p, shoal_graph_read_state(p->graph, state, p->scan.name, line, &id))) return false;
  return p->graph->values.count > before ||
         shoal_scan_fail(&p->scan, "state '%s' is read twice", name);
}

static bool read_graph_line(parse_t *p) {
  const char *name;
  int32_t id = -1, predicate = -1;
  if (!p->graph) return shoal_scan_fail(&p->scan, "expected 'graph NAME' before its lines");
  if (shoal_scan_accept(&p->scan, "assign")) {
    if (!read_name(p, &name) || !shoal_scan_expect(&p->scan, "=") || !read_value(p, &id))
      return false;
    if (shoal_scan_accept(&p->scan, "if") && !read_value(p, &predicate)) return false;
    int32_t state = shoal_model_find_state(p->model, name);
    if (state < 0) return shoal_scan_fail(&p->scan, "there is no state '%s'", name);
    return check(p, shoal_graph_assign(p->graph, state, id, predicate));
  }
  if (shoal_scan_accept(&p->scan, "constrain")) {
    return read_value(p, &id) && shoal_scan_string(&p->scan, &p->scratch, &name) &&
           check(p, shoal_graph_constrain(p->graph, id, name, p->scan.name, line_here(p)));
  }
  if (shoal_scan_accept(&p->scan, "output")) {
    return read_name(p, &name) && shoal_scan_expect(&p->scan, "=") && read_value(p, &id) &&
           check(p, shoal_graph_add_output(p->graph, name, id));
  }
  return read_value_line(p);
}

static bool read_line(parse_t *p) {
  const char *name;
  if (shoal_scan_accept(&p->scan, "freeze")) {
    if (!shoal_scan_string(&p->scan, &p->scratch, &name)) return false;
    shoal_freeze_at(p->model, name, p->scan.name, line_here(p));
    return check(p, shoal_model_status(p->model));
  }
  if (shoal_scan_accept(&p->scan, "state")) return read_state_line(p);
  if (shoal_scan_accept(&p->scan, "graph")) {
    if (!read_name(p, &name)) return false;
    const shoal_graph_t *old = shoal_model_find_graph(p->model, name);
    if (old && (old->values.count || old != p->model->graphs.items[0])) {
      return shoal_scan_fail(&p->scan, "graph '%s' is there twice", name);
    }
    shoal_index_init(&p->scratch, &p->nodes);
    return check(p, shoal_model_add_graph(p->model, name, &p->graph));
  }
  return read_graph_line(p);
}

static bool read_model(parse_t *p) {
  int64_t seed;
  bool init_given = false;
  while (shoal_scan_accept(&p->scan, "\n")) {
  }
  if (!shoal_scan_expect(&p->scan, "model") || !shoal_scan_expect(&p->scan, "seed") ||
      !shoal_scan_expect(&p->scan, "=") || !shoal_scan_int(&p->scan, &seed)) {
    return false;
  }
  p->model->seed = (uint64_t)seed;
  p->model->init_rewritten =
      true;  // states write no initial values until we know whether the text does
  while (!shoal_scan_at_end(&p->scan)) {
    if (!shoal_scan_expect(&p->scan, "\n")) return false;
    if (shoal_scan_peek(&p->scan, "\n") || shoal_scan_at_end(&p->scan)) continue;
    if (!read_line(p)) return false;
    init_given |= p->graph == p->model->graphs.items[0];
  }
  p->model->init_rewritten = init_given;
  for (int32_t i = 0; !init_given && i < p->model->states.count; ++i) {
    if (!check(p, shoal_model_write_init(p->model, i))) return false;
  }
  return !p->scan.error;
}

shoal_status_t shoal_model_parse(const char *name, const char *text,
                                 const shoal_model_options_t *options, shoal_model_t **out_model) {
  *out_model = NULL;
  parse_t p = {.line = 1, .counted = text};
  SHOAL_RETURN_IF_ERROR(shoal_model_create(options, &p.model));
  shoal_arena_init(p.model->allocator, &p.scratch);
  shoal_scan_init(name, text, &p.scan);
  p.scan.lines = p.scan.comments = true;
  bool ok = read_model(&p);
  shoal_status_t status = shoal_scan_status(&p.scan);
  if (ok && !status) status = shoal_model_verify(p.model);
  shoal_arena_deinit(&p.scratch);
  if (status) {
    shoal_model_free(p.model);
  } else {
    *out_model = p.model;
  }
  return status;
}
