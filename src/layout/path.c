// A reshard as the few steps that move the fewest elements on the rank that moves most.
//
// Where the reshard is one collective, or local, there is one step. Else layouts in between are
// tried: each axis is cut as before, as afterwards, not at all, or without its halo; between two
// meshes also as its namesake on the other mesh is, or flat. Steps on one mesh must be of one kind,
// which the layouts alone say (or only fill halos), so that the search costs axes and dims and not
// ranks; the last resort is the one general step, which is taken unless a sequence moves less.
#include "layout/cells.h"
#include "layout/layout_impl.h"

enum { MAX_STEPS = 4, MAX_OPTIONS = 5, MAX_TRIES = 128, MAX_STATES = 64, MAX_LOOKS = 1024 };

// How an axis may be cut in between. Cuts keep the order that they have in the layout they are
// from.
typedef enum origin { FROM_NONE, FROM_SRC, FROM_DST, FROM_BOTH, AS_FLAT } origin_t;

typedef struct option {
  origin_t origin;
  bool bare;  // without halo
} option_t;

typedef struct options {
  int32_t count;
  option_t items[MAX_OPTIONS];
} options_t;

typedef struct state {
  const shoal_layout_t *layout;
  int64_t micro;
  bool after;  // on the destination's mesh
} state_t;

typedef struct edge {
  bool known, exists;
  shoal_reshard_facts_t facts;
  int64_t sent, received;
} edge_t;

typedef struct search {
  const shoal_pair_t *pair;
  const shoal_layout_t *src, *dst;
  int64_t src_micro, dst_micro;
  const shoal_shape_t *shape;
  shoal_arena_t *arena;  // what the path keeps
  shoal_arena_t *keep;   // lives as long as the search
  int64_t state_count;
  state_t states[MAX_STATES];  // the first is the source, the second the destination
  edge_t *edges;               // state_count * state_count
} search_t;

// ---- layouts in between ----------------------------------------------------------------

static int32_t axis_on(const shoal_mesh_t *mesh, const shoal_mesh_t *other, int32_t axis) {
  if (axis == SHOAL_AXIS_MICRO) return axis;
  int32_t twin = shoal_mesh_axis(mesh, other->axes[axis].name);
  return twin >= 0 && mesh->axes[twin].size == other->axes[axis].size ? twin : -2;
}

// The cut of a layout along an axis of `mesh` that does something, or NULL.
static const shoal_cut_t *cut_along(const shoal_side_t *side, const shoal_mesh_t *mesh,
                                    int32_t axis) {
  const shoal_layout_t *layout = side->layout;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (axis_on(mesh, layout->mesh, cut->axis) != axis || shoal_cut_idle(layout, cut)) continue;
    const bool timeless = axis == SHOAL_AXIS_MICRO && cut->kind == SHOAL_CUT_DIM && side->micro < 0;
    return timeless ? NULL : cut;
  }
  return NULL;
}

static void add_option(options_t *options, origin_t origin, bool bare) {
  if (options->count < MAX_OPTIONS) options->items[options->count++] = (option_t){origin, bare};
}

static bool has_halo(const shoal_cut_t *cut) {
  return cut && cut->kind == SHOAL_CUT_DIM && (cut->before || cut->after);
}

static bool same_cut(const search_t *s, const shoal_cut_t *a, const shoal_cut_t *b, int64_t parts) {
  if (!a || !b) return !a && !b;
  if (a->axis == SHOAL_AXIS_MICRO && a->kind == SHOAL_CUT_DIM && s->src_micro != s->dst_micro) {
    return false;
  }
  return shoal_cut_alike(a, b, parts);
}

// How axis `axis` of a mesh may be cut; of two meshes, `after` is the destination's.
static options_t options_of(const search_t *s, const shoal_mesh_t *mesh, bool after, int32_t axis) {
  const shoal_cut_t *a = cut_along(&s->pair->src, mesh, axis);
  const shoal_cut_t *b = cut_along(&s->pair->dst, mesh, axis);
  options_t options = {0};
  if (same_cut(s, a, b, shoal_layout_axis_size(mesh, axis))) {
    add_option(&options, a ? FROM_BOTH : FROM_NONE, false);
    const bool alone = !a && !s->pair->roles.same_mesh && axis != SHOAL_AXIS_MICRO &&
                       axis_on(after ? s->src->mesh : s->dst->mesh, mesh, axis) < 0;
    if (alone) add_option(&options, AS_FLAT, false);
    return options;
  }
  add_option(&options, a ? FROM_SRC : FROM_NONE, false);
  if (b || a) add_option(&options, b ? FROM_DST : FROM_NONE, false);
  if (axis == SHOAL_AXIS_MICRO) return options;
  if (has_halo(b)) add_option(&options, FROM_DST, true);
  if (has_halo(a)) add_option(&options, FROM_SRC, true);
  if (a && b) add_option(&options, FROM_NONE, false);
  const shoal_cut_t *own = after ? b : a;
  const bool copies = !own || own->kind == SHOAL_CUT_PARTIAL;
  if (!s->pair->roles.same_mesh && copies) add_option(&options, AS_FLAT, false);
  return options;
}

// Appends the cuts that are from one of the two layouts, flat ones or the others.
static void add_cuts(const search_t *s, const option_t *chosen, bool from_dst, bool both, bool flat,
                     const shoal_mesh_t *mesh, shoal_layout_t *layout) {
  const shoal_side_t *side = from_dst ? &s->pair->dst : &s->pair->src;
  for (int32_t i = 0; i < side->layout->cut_count; ++i) {
    const shoal_cut_t *cut = &side->layout->cuts[i];
    const int32_t axis = axis_on(mesh, side->layout->mesh, cut->axis);
    if (axis < SHOAL_AXIS_MICRO || (cut->kind == SHOAL_CUT_FLAT) != flat) continue;
    const option_t *option = &chosen[axis == SHOAL_AXIS_MICRO ? SHOAL_MAX_AXES : axis];
    const bool wanted =
        option->origin == (from_dst ? FROM_DST : FROM_SRC) || (both && option->origin == FROM_BOTH);
    if (!wanted || cut_along(side, mesh, axis) != cut || layout->cut_count == SHOAL_MAX_CUTS) {
      continue;
    }
    shoal_cut_t *copy = &layout->cuts[layout->cut_count++];
    *copy = *cut;
    copy->axis = axis;
    if (option->bare) copy->before = copy->after = 0;
  }
}

// Micro cuts come first: they are outermost.
static void put_micro_first(shoal_layout_t *layout) {
  for (int32_t i = 1; i < layout->cut_count; ++i) {
    if (layout->cuts[i].axis != SHOAL_AXIS_MICRO || layout->cuts[i].kind != SHOAL_CUT_DIM) continue;
    shoal_cut_t micro = layout->cuts[i];
    for (int32_t k = i; k > 0; --k) layout->cuts[k] = layout->cuts[k - 1];
    layout->cuts[0] = micro;
    return;
  }
}

static shoal_status_t add_state(search_t *s, const shoal_layout_t *layout, int64_t micro,
                                bool after) {
  if (s->state_count == MAX_STATES) return NULL;
  shoal_status_t refused = shoal_layout_check(layout, s->shape);
  if (refused) {
    shoal_status_free(refused);
    return NULL;
  }
  for (int64_t i = 0; i < s->state_count; ++i) {
    const state_t *other = &s->states[i];
    if (other->after != after && !s->pair->roles.same_mesh) continue;
    if (other->micro == micro && shoal_layout_equal(other->layout, layout)) return NULL;
  }
  const shoal_layout_t *copy = shoal_arena_copy(s->arena, layout, 1, sizeof *layout);
  if (!copy) return SHOAL_OOM();
  s->states[s->state_count++] = (state_t){copy, micro, after};
  return NULL;
}

// All layouts on a mesh that the options make.
static shoal_status_t add_states(search_t *s, const shoal_mesh_t *mesh, bool after) {
  options_t options[SHOAL_MAX_AXES + 1] = {0};
  int64_t total = 2;
  for (int32_t k = 0; k <= SHOAL_MAX_AXES; ++k) {
    options[k].count = 1;  // FROM_NONE
    const bool micro = k == SHOAL_MAX_AXES;
    if (!micro && (k >= mesh->axis_count)) continue;
    options[k] = options_of(s, mesh, after, micro ? SHOAL_AXIS_MICRO : k);
    total *= options[k].count;
  }
  while (total > MAX_TRIES) {  // the later options help less often
    int32_t most = 0;
    for (int32_t k = 1; k <= SHOAL_MAX_AXES; ++k) {
      if (options[k].count >= options[most].count) most = k;
    }
    if (options[most].count <= 2) return NULL;
    total = total / options[most].count * (options[most].count - 1);
    --options[most].count;
  }
  for (int64_t i = 0; i < total; ++i) {
    option_t chosen[SHOAL_MAX_AXES + 1];
    int64_t rest = i / 2;
    const bool dst_first = i % 2;
    for (int32_t k = 0; k <= SHOAL_MAX_AXES; ++k) {
      chosen[k] = options[k].items[rest % options[k].count];
      rest /= options[k].count;
    }
    shoal_layout_t layout = {.mesh = mesh, .tile = s->src->tile};
    for (int flat = 0; flat < 2; ++flat) {
      add_cuts(s, chosen, dst_first, true, flat, mesh, &layout);
      add_cuts(s, chosen, !dst_first, false, flat, mesh, &layout);
    }
    for (int32_t k = 0; k < mesh->axis_count; ++k) {
      if (chosen[k].origin != AS_FLAT || layout.cut_count == SHOAL_MAX_CUTS) continue;
      layout.cuts[layout.cut_count++] = (shoal_cut_t){.axis = k, .kind = SHOAL_CUT_FLAT};
    }
    put_micro_first(&layout);
    const bool later =
        chosen[SHOAL_MAX_AXES].origin == FROM_DST || options[SHOAL_MAX_AXES].count == 1;
    SHOAL_RETURN_IF_ERROR(add_state(s, &layout, later ? s->dst_micro : s->src_micro, after));
  }
  return NULL;
}

// ---- steps -----------------------------------------------------------------------------

// Do the layouts differ in halos only?
static bool only_halos(const shoal_pair_t *pair) {
  if (!pair->roles.same_mesh || pair->roles.joins > 1 || pair->roles.spreads) return false;
  for (int32_t d = 0; d <= pair->rank; ++d) {
    const shoal_cut_list_t *a = &pair->src_cuts[d], *b = &pair->dst_cuts[d];
    if (a->count != b->count) return false;
    for (int32_t i = 0; i < a->count; ++i) {
      shoal_cut_t bare = *a->cuts[i];
      bare.before = b->cuts[i]->before;
      bare.after = b->cuts[i]->after;
      if (a->cuts[i]->axis != b->cuts[i]->axis) return false;
      const int64_t parts = shoal_layout_axis_size(pair->roles.src_mesh, bare.axis);
      if (!shoal_cut_alike(&bare, b->cuts[i], parts)) return false;
    }
  }
  return true;
}

// Does every rank's whole part go to one other rank?
static bool is_permuted(const shoal_pair_t *pair) {
  const shoal_roles_t *roles = &pair->roles;
  bool twins[SHOAL_MAX_AXES] = {0};
  if (roles->same_mesh || roles->joins > 1 || roles->spreads) return false;
  if (!shoal_tile_same(pair->src.layout, pair->dst.layout)) return false;
  for (int32_t d = 0; d <= pair->rank; ++d) {
    const shoal_cut_list_t *a = &pair->src_cuts[d], *b = &pair->dst_cuts[d];
    if (a->count > a->same || b->count > b->same) return false;
    for (int32_t i = 0; i < a->count; ++i) {
      if (has_halo(a->cuts[i])) return false;
    }
  }
  for (int32_t i = 0; i < roles->src_mesh->axis_count; ++i) {
    if (roles->src_mesh->axes[i].size == 1) continue;
    if (roles->twin[i] < 0 || (roles->overlap && roles->follows[i])) return false;
    twins[roles->twin[i]] = true;
  }
  for (int32_t i = 0; i < roles->dst_mesh->axis_count; ++i) {
    if (roles->dst_mesh->axes[i].size > 1 && !twins[i]) return false;
  }
  return true;
}

// Between meshes ranks are counted: not where there are many to look at, or many peers.
static shoal_status_t is_small(const shoal_pair_t *pair, shoal_arena_t *scratch, bool *out_small) {
  const shoal_roles_t *roles = &pair->roles;
  shoal_reshard_cells_t cells;
  int64_t peers = 1;
  SHOAL_RETURN_IF_ERROR(shoal_pair_cells(pair, scratch, &cells));
  for (int32_t d = 0; d <= pair->rank; ++d) {
    const shoal_cut_list_t *a = &pair->src_cuts[d], *b = &pair->dst_cuts[d];
    for (int32_t i = a->same; i < a->count; ++i) {
      peers *= shoal_layout_axis_size(roles->src_mesh, a->cuts[i]->axis);
    }
    for (int32_t i = b->same; i < b->count; ++i) {
      peers *= shoal_layout_axis_size(roles->dst_mesh, b->cuts[i]->axis);
    }
    if (peers > MAX_LOOKS) break;
  }
  const int64_t looks = shoal_cells_count(&cells.src) + shoal_cells_count(&cells.dst);
  *out_small = looks * shoal_max64(peers, roles->joins) <= MAX_LOOKS;
  return NULL;
}

static shoal_status_t measure(const search_t *s, const state_t *from, const state_t *to,
                              bool direct, edge_t *edge) {
  shoal_pair_t pair;
  bool known;
  SHOAL_RETURN_IF_ERROR(
      shoal_pair_init(from->layout, from->micro, to->layout, to->micro, s->shape, &pair));
  if (!direct && !pair.roles.same_mesh) {
    bool small;
    SHOAL_RETURN_IF_ERROR(is_small(&pair, s->keep, &small));
    if (!small) return NULL;
  }
  const bool look = direct || !pair.roles.same_mesh || only_halos(&pair);
  SHOAL_RETURN_IF_ERROR(shoal_pair_describe(&pair, s->keep->allocator,
                                            look ? SHOAL_LOOK_IF_NEEDED : SHOAL_LOOK_NEVER, &known,
                                            &edge->facts));
  if (!direct && pair.roles.same_mesh) {
    if (!known && !look) return NULL;
    if (edge->facts.kind == SHOAL_RESHARD_BETWEEN) return NULL;
  }
  shoal_arena_t scratch;
  shoal_arena_init(s->keep->allocator, &scratch);
  shoal_status_t status =
      shoal_pair_volume(&pair, &edge->facts, &scratch, &edge->sent, &edge->received);
  shoal_arena_deinit(&scratch);
  edge->exists = true;
  if (edge->facts.kind == SHOAL_RESHARD_BETWEEN && is_permuted(&pair)) {
    edge->facts.kind = SHOAL_RESHARD_PERMUTE;
  }
  return status;
}

// A step that is not possible is none; but short memory is.
static shoal_status_t find_edge(search_t *s, int64_t from, int64_t to, edge_t **out_edge) {
  edge_t *edge = &s->edges[from * s->state_count + to];
  *out_edge = edge;
  if (edge->known) return NULL;
  edge->known = true;
  shoal_status_t status = measure(s, &s->states[from], &s->states[to], from == 0 && to == 1, edge);
  if (!status || (from == 0 && to == 1)) return status;
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);
  edge->exists = false;
  return NULL;
}

static int64_t cost_of(const edge_t *edge) {
  return shoal_max64(edge->sent, edge->received);
}

// ---- the search ------------------------------------------------------------------------

typedef struct reached {
  int64_t cost, from;  // -1: not reached
} reached_t;

static shoal_status_t find_cheapest(search_t *s, int64_t direct, int64_t *out_count,
                                    int64_t out_states[MAX_STEPS + 1]) {
  const int64_t n = s->state_count;
  reached_t *reached = SHOAL_NEW(s->keep, reached_t, (MAX_STEPS + 1) * n);
  if (!reached) return SHOAL_OOM();
  for (int64_t i = 0; i < (MAX_STEPS + 1) * n; ++i) reached[i] = (reached_t){INT64_MAX, -1};
  reached[0].cost = 0;
  int64_t best = direct, best_step = 1;
  for (int64_t step = 1; step <= MAX_STEPS; ++step) {
    const reached_t *before = &reached[(step - 1) * n];
    reached_t *now = &reached[step * n];
    for (int64_t i = 0; i < n; ++i) {
      if (before[i].cost >= best || i == 1) continue;
      for (int64_t k = 1; k < n; ++k) {
        if (k == i || (step == 1 && k == 1)) continue;
        if (s->states[i].after && !s->states[k].after) continue;  // not back
        edge_t *edge;
        SHOAL_RETURN_IF_ERROR(find_edge(s, i, k, &edge));
        const int64_t cost = edge->exists ? before[i].cost + cost_of(edge) : best;
        if (cost >= best || cost >= now[k].cost) continue;
        now[k] = (reached_t){cost, i};
        if (k != 1) continue;
        best = cost;
        best_step = step;
      }
    }
  }
  *out_count = best_step;
  int64_t at = 1;
  for (int64_t step = best_step; step >= 0; --step) {
    out_states[step] = at;
    if (step > 0) at = best_step == 1 ? 0 : reached[step * n + at].from;
  }
  return NULL;
}

// Are layouts in between worth a search? They are where ranks exchange something in no simple way;
// between two meshes only where corresponding axes say who takes from whom.
static bool is_worth_it(const search_t *s, const edge_t *direct) {
  const shoal_roles_t *roles = &s->pair->roles;
  if (direct->facts.kind != SHOAL_RESHARD_BETWEEN || roles->silent) return false;
  if (cost_of(direct) == 0) return false;
  const shoal_cut_t *a = shoal_layout_micro_partial(s->src);
  const shoal_cut_t *b = shoal_layout_micro_partial(s->dst);
  if (!a != !b) return false;
  if (roles->same_mesh) return true;
  if (roles->overlap) return false;
  for (int32_t i = 0; i < roles->src_mesh->axis_count; ++i) {
    if (roles->src_mesh->axes[i].size > 1 && roles->twin[i] < 0) return false;
  }
  return true;
}

static shoal_status_t find_path(search_t *s, shoal_reshard_path_t *path) {
  edge_t direct = {0};
  s->states[0] = (state_t){s->src, s->src_micro, false};
  s->states[1] = (state_t){s->dst, s->dst_micro, !s->pair->roles.same_mesh};
  s->state_count = 2;
  SHOAL_RETURN_IF_ERROR(measure(s, &s->states[0], &s->states[1], true, &direct));
  int64_t count = 1, states[MAX_STEPS + 1] = {0, 1};
  if (is_worth_it(s, &direct) && shoal_tile_same(s->src, s->dst)) {
    SHOAL_RETURN_IF_ERROR(add_states(s, s->src->mesh, false));
    if (!s->pair->roles.same_mesh) SHOAL_RETURN_IF_ERROR(add_states(s, s->dst->mesh, true));
    s->edges = SHOAL_NEW(s->keep, edge_t, s->state_count * s->state_count);
    if (!s->edges) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(find_cheapest(s, cost_of(&direct), &count, states));
  }
  shoal_reshard_step_t *steps = SHOAL_NEW(s->arena, shoal_reshard_step_t, count);
  if (!steps) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const state_t *from = &s->states[states[i]], *to = &s->states[states[i + 1]];
    const edge_t *edge =
        count == 1 ? &direct : &s->edges[states[i] * s->state_count + states[i + 1]];
    steps[i] = (shoal_reshard_step_t){.src = from->layout,
                                      .src_micro = from->micro,
                                      .dst = to->layout,
                                      .dst_micro = to->micro,
                                      .facts = edge->facts,
                                      .sent = edge->sent,
                                      .received = edge->received};
  }
  path->step_count = count;
  path->steps = steps;
  return NULL;
}

shoal_status_t shoal_reshard_path(const shoal_layout_t *src, int64_t src_micro,
                                  const shoal_layout_t *dst, int64_t dst_micro,
                                  const shoal_shape_t *shape, shoal_arena_t *arena,
                                  shoal_reshard_path_t *out_path) {
  shoal_pair_t pair;
  SHOAL_RETURN_IF_ERROR(shoal_pair_init(src, src_micro, dst, dst_micro, shape, &pair));
  shoal_arena_t keep;
  shoal_arena_init(arena->allocator, &keep);
  search_t search = {.pair = &pair,
                     .src = src,
                     .dst = dst,
                     .src_micro = src_micro,
                     .dst_micro = dst_micro,
                     .shape = shape,
                     .arena = arena,
                     .keep = &keep};
  shoal_status_t status = find_path(&search, out_path);
  shoal_arena_deinit(&keep);
  return status;
}
