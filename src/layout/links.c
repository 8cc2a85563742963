// A reshard, for one rank: what it receives and what it sends, at the cost of its peers.
//
// Receiving: the owners of what the rank's new part holds are found along each dim (owners.c); the
// coordinates along all other axes follow from its position (roles.c). Sending is the inverse: the
// destinations that hold some of what the rank owns are found along each dim, those that decide for
// another replica are left out. On one mesh, or on axes of the same name, the coordinates of
// replicas are known beforehand; where meshes share some ranks, or the digits of a position decide,
// positions are tried, or all coordinates of the free axes are: at most as many as there are ranks.
#include <stdlib.h>

#include "layout/layout_impl.h"
#include "layout/motion.h"

typedef shoal_transfer_t moved_t;
typedef SHOAL_VEC(moved_t) moves_t;

typedef struct plan {
  const shoal_side_t *src, *dst;
  const shoal_roles_t *roles;
  int32_t rank;  // dims
  bool halo;     // ranks of the source may hold more than they own
  shoal_deals_t *deals;
  shoal_arena_t *out;   // what the caller keeps
  shoal_arena_t *keep;  // lives as long as the planning
} plan_t;

typedef struct destination {
  int64_t position;
  int64_t coords[SHOAL_MAX_AXES];
  shoal_side_part_t part;
  shoal_products_t need;           // what it holds
  int64_t self;                    // its rank's position on the source's mesh, or -1
  int64_t source[SHOAL_MAX_AXES];  // source coordinates along the axes that follow
} destination_t;

// The coordinates of a row-major index along some axes.
static void set_coords(const shoal_mesh_t *mesh, const int32_t *axes, int32_t count, int64_t index,
                       int64_t *coords) {
  for (int32_t i = count - 1; i >= 0; --i) {
    coords[axes[i]] = index % mesh->axes[axes[i]].size;
    index /= mesh->axes[axes[i]].size;
  }
}

static shoal_status_t locate(plan_t *plan, destination_t *to) {
  const shoal_roles_t *roles = plan->roles;
  SHOAL_RETURN_IF_ERROR(shoal_side_products(plan->dst, &to->part, true, plan->keep, &to->need));
  to->self = -1;
  if (roles->same_mesh)
    to->self = to->position;
  else if (roles->overlap)
    to->self = shoal_mesh_position(roles->src_mesh, shoal_mesh_rank(roles->dst_mesh, to->position));
  shoal_roles_source(roles, to->position, to->coords, to->self, to->source);
  return NULL;
}

// What `have` and `need` share, as blocks from one buffer to the other; count 0: nothing.
static shoal_status_t share(const plan_t *plan, const shoal_side_part_t *from,
                            const shoal_side_part_t *to, const shoal_products_t *have,
                            const shoal_products_t *need, shoal_products_t *covered,
                            moved_t *out_moved) {
  shoal_products_t shared = {0};
  for (int64_t i = 0; i < need->count; ++i) {
    for (int64_t j = 0; j < have->count; ++j) {
      SHOAL_RETURN_IF_ERROR(shoal_product_intersect(plan->rank, &need->items[i], &have->items[j],
                                                    plan->keep, &shared));
    }
  }
  shoal_pieces_t pieces = {0};
  for (int64_t i = 0; i < shared.count; ++i) {
    SHOAL_RETURN_IF_ERROR(
        shoal_pieces_add(plan->rank, from, to, &shared.items[i], plan->keep, &pieces));
    if (covered && !SHOAL_PUSH(plan->keep, covered, shared.items[i])) return SHOAL_OOM();
  }
  out_moved->count = 0;
  for (int64_t i = 0; i < pieces.count; ++i)
    out_moved->count += shoal_piece_count(&pieces.items[i]);
  out_moved->piece_count = pieces.count;
  out_moved->pieces =
      shoal_arena_copy(plan->out, pieces.items, (size_t)pieces.count, sizeof *pieces.items);
  return out_moved->pieces ? NULL : SHOAL_OOM();
}

// A rank takes what it holds itself; that only needs care where it holds more than it owns. Has the
// destination's rank such a part, among the contributions from `coords`? *out_need is what it
// leaves.
static shoal_status_t take_own(plan_t *plan, const destination_t *to, const int64_t *coords,
                               shoal_side_part_t *part, shoal_products_t *held,
                               shoal_products_t *out_need, bool *out_taken) {
  *out_need = to->need;
  *out_taken = false;
  if (to->self < 0 || !plan->halo) return NULL;
  int64_t own[SHOAL_MAX_AXES];
  shoal_mesh_coords(plan->roles->src_mesh, to->self, own);
  for (int32_t i = 0; i < plan->roles->src_mesh->axis_count; ++i) {
    if (!plan->src->cuts[i] && own[i] != coords[i]) return NULL;
  }
  SHOAL_RETURN_IF_ERROR(shoal_side_part_at(plan->src, own, plan->deals, plan->keep, part));
  if (!part->halo) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_side_products(plan->src, part, true, plan->keep, held));
  *out_taken = true;
  if (held->count == 0) return NULL;
  *out_need = (shoal_products_t){0};
  for (int64_t i = 0; i < to->need.count; ++i) {  // with a halo nothing is flat: one product
    SHOAL_RETURN_IF_ERROR(shoal_product_subtract(plan->rank, &to->need.items[i], &held->items[0],
                                                 plan->keep, out_need));
  }
  return NULL;
}

// Appends to `flats` the flat ranges, along the axes of `side`, in which some of `wanted` lies in
// the packed part.
static shoal_status_t find_flats(plan_t *plan, const shoal_side_t *side, const int64_t *fixed,
                                 const shoal_side_part_t *part, const shoal_products_t *wanted,
                                 shoal_flats_t *flats) {
  shoal_product_t packed = {0};
  for (int32_t d = 0; d < plan->rank; ++d) {
    packed.dims[d] = (shoal_spans_t){part->dims[d]->own, part->dims[d]->own_count};
  }
  shoal_flats_t found = {0};
  for (int64_t i = 0; i < wanted->count; ++i) {
    shoal_products_t shared = {0};
    SHOAL_RETURN_IF_ERROR(
        shoal_product_intersect(plan->rank, &wanted->items[i], &packed, plan->keep, &shared));
    if (shared.count == 0) continue;
    int64_t first = 0, last = 0;
    for (int32_t d = 0; d < plan->rank; ++d) {
      const shoal_spans_t spans = shared.items[0].dims[d];
      const shoal_interval_t *end = &spans.items[spans.count - 1];
      first += shoal_side_local(part, d, spans.items[0].start) * part->stride[d];
      last += shoal_side_local(part, d, end->start + end->size - 1) * part->stride[d];
    }
    SHOAL_RETURN_IF_ERROR(shoal_owners_flat(side->layout, fixed, part->owned, first, last + 1,
                                            plan->deals, plan->keep, &found));
    for (int64_t k = 0; k < found.count; ++k) {
      bool known = false;  // products of one range are few, and ascend
      for (int64_t n = flats->count;
           n-- > 0 && !known && flats->items[n].index >= found.items[k].index;)
        known = flats->items[n].index == found.items[k].index;
      if (!known && !SHOAL_PUSH(plan->keep, flats, found.items[k])) return SHOAL_OOM();
    }
  }
  return NULL;
}

// ---- receiving -------------------------------------------------------------------------

typedef struct receiving {
  destination_t to;
  shoal_slots_t hits[SHOAL_MAX_RANK];  // slots of the source that own some of it
  shoal_products_t covered;            // of the current joined coordinates, for the message
  moves_t *moves;
} receiving_t;

static shoal_status_t receive_from(plan_t *plan, receiving_t *in, const int64_t *coords,
                                   const shoal_side_part_t *part, const shoal_products_t *need,
                                   int64_t *total) {
  shoal_products_t have = {0};
  SHOAL_RETURN_IF_ERROR(shoal_side_products(plan->src, part, false, plan->keep, &have));
  moved_t moved = {.src = shoal_mesh_at(plan->roles->src_mesh, coords), .dst = in->to.position};
  SHOAL_RETURN_IF_ERROR(share(plan, part, &in->to.part, &have, need, &in->covered, &moved));
  *total += moved.count;
  return moved.count == 0 || SHOAL_PUSH(plan->keep, in->moves, moved) ? NULL : SHOAL_OOM();
}

// All ranks that own a part of `need`, for given coordinates along all but the cutting axes.
static shoal_status_t receive_from_owners(plan_t *plan, receiving_t *in, int64_t *coords,
                                          const shoal_products_t *need, int64_t *total) {
  const shoal_side_t *src = plan->src;
  int64_t at[SHOAL_MAX_RANK] = {0};
  for (int32_t d = 0; d < plan->rank; ++d) {
    if (in->hits[d].count == 0) return NULL;
  }
  for (;;) {
    shoal_side_part_t part = {0};
    for (int32_t d = 0; d < plan->rank; ++d) {
      const shoal_slot_t *slot = &in->hits[d].items[at[d]];
      part.dims[d] = &slot->part;
      part.offsets[d] = slot->offsets;
      set_coords(src->layout->mesh, src->axes[d], src->axis_count[d], slot->index, coords);
    }
    shoal_side_part_shape(src, &part);
    if (src->flat) {
      shoal_flats_t flats = {0};
      SHOAL_RETURN_IF_ERROR(find_flats(plan, src, NULL, &part, need, &flats));
      for (int64_t i = 0; i < flats.count; ++i) {
        set_coords(src->layout->mesh, src->flat_axes, src->flat_axis_count, flats.items[i].index,
                   coords);
        part.from = flats.items[i].from;
        part.to = flats.items[i].to;
        part.owned = part.to - part.from;
        SHOAL_RETURN_IF_ERROR(receive_from(plan, in, coords, &part, need, total));
      }
    } else {
      SHOAL_RETURN_IF_ERROR(receive_from(plan, in, coords, &part, need, total));
    }
    int32_t d = plan->rank - 1;
    while (d >= 0 && ++at[d] == in->hits[d].count) at[d--] = 0;
    if (d < 0) return NULL;
  }
}

static int compare_sources(const void *a, const void *b) {
  const moved_t *x = a, *y = b;
  return (x->src > y->src) - (x->src < y->src);
}

// The contributions from one set of joined coordinates, which `coords` has.
static shoal_status_t receive_join(plan_t *plan, receiving_t *in, int64_t *coords) {
  const destination_t *to = &in->to;
  int64_t needed = to->part.to - to->part.from, total = 0, before = in->moves->count;
  shoal_side_part_t part;
  shoal_products_t held = {0}, need;
  bool taken;
  in->covered.count = 0;
  SHOAL_RETURN_IF_ERROR(take_own(plan, to, coords, &part, &held, &need, &taken));
  if (taken) {
    moved_t moved = {.src = to->self, .dst = to->position};
    SHOAL_RETURN_IF_ERROR(share(plan, &part, &to->part, &held, &to->need, &in->covered, &moved));
    total = moved.count;
    if (total && !SHOAL_PUSH(plan->keep, in->moves, moved)) return SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(receive_from_owners(plan, in, coords, &need, &total));
  if (total != needed) {
    return shoal_roles_unowned(plan->rank, &to->need, &in->covered, to->position, plan->keep);
  }
  int64_t added = in->moves->count - before;
  if (added > 1) {
    qsort(in->moves->items + before, (size_t)added, sizeof *in->moves->items, compare_sources);
  }
  return NULL;
}

static shoal_status_t receive(plan_t *plan, int64_t position, moves_t *moves) {
  receiving_t in = {.to = {.position = position}, .moves = moves};
  destination_t *to = &in.to;
  const shoal_mesh_t *sm = plan->roles->src_mesh;
  shoal_mesh_coords(plan->roles->dst_mesh, position, to->coords);
  for (int32_t i = 0; i < plan->roles->dst_mesh->axis_count; ++i) {
    if (plan->roles->spread[i] && to->coords[i] != 0) return NULL;
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_side_part_at(plan->dst, to->coords, plan->deals, plan->keep, &to->part));
  if (to->part.from == to->part.to) return NULL;
  SHOAL_RETURN_IF_ERROR(locate(plan, to));
  for (int32_t d = 0; d < plan->rank; ++d) {
    const shoal_dim_part_t *part = to->part.dims[d];
    const shoal_owners_t query = {.layout = plan->src->layout,
                                  .micro = plan->src->micro,
                                  .dim = d,
                                  .want = {part->held, part->held_count}};
    SHOAL_RETURN_IF_ERROR(
        shoal_owners_find(&query, plan->src->shape->dims[d], plan->deals, plan->keep, &in.hits[d]));
  }
  for (int64_t join = 0; join < plan->roles->joins; ++join) {
    int64_t coords[SHOAL_MAX_AXES] = {0}, rest = join;
    for (int32_t i = sm->axis_count - 1; i >= 0; --i) {
      coords[i] = to->source[i];
      if (!plan->roles->joined[i]) continue;
      coords[i] = rest % sm->axes[i].size;
      rest /= sm->axes[i].size;
    }
    SHOAL_RETURN_IF_ERROR(receive_join(plan, &in, coords));
  }
  return NULL;
}

// ---- sending ---------------------------------------------------------------------------

// Which destinations a search is for: where meshes share some ranks, those whose rank is on the
// source's mesh follow another rule than those whose rank is not.
typedef enum which { ALL, STRANGERS, MEMBERS } which_t;

typedef struct sending {
  int64_t position;  // on the source's mesh
  int64_t coords[SHOAL_MAX_AXES];
  shoal_side_part_t part;
  shoal_products_t have;  // what it owns
  int64_t self;           // its rank's position on the destination's mesh, or -1
  which_t which;
  int64_t fixed[SHOAL_MAX_AXES];  // by axis of the destination: the only coordinate, or -1
  int32_t free_count, free_axes[SHOAL_MAX_AXES];  // of the destination: they do not cut
  moves_t *moves;
} sending_t;

// The coordinates that destinations of this rank have; false: there are none.
static bool fix_coords(const plan_t *plan, sending_t *from) {
  const shoal_roles_t *roles = plan->roles;
  for (int32_t i = 0; i < SHOAL_MAX_AXES; ++i) from->fixed[i] = -1;
  for (int32_t i = 0; i < roles->src_mesh->axis_count; ++i) {
    bool known = roles->kept[i] || from->which != MEMBERS;
    if (!roles->follows[i] || !known || roles->twin[i] < 0) continue;
    from->fixed[roles->twin[i]] = from->coords[i];
  }
  from->free_count = 0;
  for (int32_t i = 0; i < roles->dst_mesh->axis_count; ++i) {
    if (!plan->dst->cuts[i]) from->free_axes[from->free_count++] = i;
    if (!roles->spread[i]) continue;
    if (from->fixed[i] > 0) return false;
    from->fixed[i] = 0;
  }
  return true;
}

// To one destination, whose part and coordinates are known. `last` is what went to the one before,
// if its part was the same.
static shoal_status_t send_to(plan_t *plan, sending_t *from, destination_t *to, moved_t *last,
                              bool same) {
  const shoal_roles_t *roles = plan->roles;
  to->position = shoal_mesh_at(roles->dst_mesh, to->coords);
  if (to->position == from->self) return NULL;
  to->need.count = 0;
  SHOAL_RETURN_IF_ERROR(locate(plan, to));
  if (from->which != ALL && (to->self >= 0) != (from->which == MEMBERS)) return NULL;
  for (int32_t i = 0; i < roles->src_mesh->axis_count; ++i) {
    if (roles->follows[i] && to->source[i] != from->coords[i]) return NULL;
  }
  if (!same || plan->halo || last->pieces == NULL) {
    shoal_products_t need, held = {0};
    shoal_side_part_t part;
    bool taken;
    SHOAL_RETURN_IF_ERROR(take_own(plan, to, from->coords, &part, &held, &need, &taken));
    SHOAL_RETURN_IF_ERROR(share(plan, &from->part, &to->part, &from->have, &need, NULL, last));
  }
  last->src = from->position;
  last->dst = to->position;
  return last->count == 0 || SHOAL_PUSH(plan->keep, from->moves, *last) ? NULL : SHOAL_OOM();
}

// To all destinations with a given part, which have coordinates along the cutting axes.
static shoal_status_t send_to_copies(plan_t *plan, sending_t *from, destination_t *to) {
  const shoal_mesh_t *mesh = plan->roles->dst_mesh;
  moved_t last = {0};
  bool same = false;
  for (int32_t i = 0; i < from->free_count; ++i) {
    int32_t axis = from->free_axes[i];
    to->coords[axis] = shoal_max64(from->fixed[axis], 0);
  }
  for (;;) {
    SHOAL_RETURN_IF_ERROR(send_to(plan, from, to, &last, same));
    same = true;
    int32_t i = from->free_count - 1;
    for (; i >= 0; --i) {
      int32_t axis = from->free_axes[i];
      if (from->fixed[axis] >= 0) continue;
      if (++to->coords[axis] < mesh->axes[axis].size) break;
      to->coords[axis] = 0;
    }
    if (i < 0) return NULL;
  }
}

// To the destinations that hold some of what this rank owns, found along each dim.
static shoal_status_t send_by_parts(plan_t *plan, sending_t *from) {
  const shoal_side_t *dst = plan->dst;
  shoal_slots_t hits[SHOAL_MAX_RANK];
  int64_t at[SHOAL_MAX_RANK] = {0};
  for (int32_t d = 0; d < plan->rank; ++d) {
    const shoal_dim_part_t *part = from->part.dims[d];
    const shoal_owners_t query = {.layout = dst->layout,
                                  .micro = dst->micro,
                                  .dim = d,
                                  .held = true,
                                  .want = {part->own, part->own_count},
                                  .fixed = from->fixed};
    SHOAL_RETURN_IF_ERROR(
        shoal_owners_find(&query, dst->shape->dims[d], plan->deals, plan->keep, &hits[d]));
    if (hits[d].count == 0) return NULL;
  }
  for (;;) {
    destination_t to = {0};
    for (int32_t d = 0; d < plan->rank; ++d) {
      const shoal_slot_t *slot = &hits[d].items[at[d]];
      to.part.dims[d] = &slot->part;
      to.part.offsets[d] = slot->offsets;
      set_coords(dst->layout->mesh, dst->axes[d], dst->axis_count[d], slot->index, to.coords);
    }
    shoal_side_part_shape(dst, &to.part);
    if (dst->flat) {
      shoal_flats_t flats = {0};
      SHOAL_RETURN_IF_ERROR(find_flats(plan, dst, from->fixed, &to.part, &from->have, &flats));
      for (int64_t i = 0; i < flats.count; ++i) {
        set_coords(dst->layout->mesh, dst->flat_axes, dst->flat_axis_count, flats.items[i].index,
                   to.coords);
        to.part.from = flats.items[i].from;
        to.part.to = flats.items[i].to;
        to.part.owned = to.part.to - to.part.from;
        SHOAL_RETURN_IF_ERROR(send_to_copies(plan, from, &to));
      }
    } else {
      SHOAL_RETURN_IF_ERROR(send_to_copies(plan, from, &to));
    }
    int32_t d = plan->rank - 1;
    while (d >= 0 && ++at[d] == hits[d].count) at[d--] = 0;
    if (d < 0) return NULL;
  }
}

static shoal_status_t send_to_position(plan_t *plan, sending_t *from, int64_t position) {
  destination_t to = {0};
  moved_t moved = {0};
  shoal_mesh_coords(plan->roles->dst_mesh, position, to.coords);
  for (int32_t i = 0; i < plan->roles->dst_mesh->axis_count; ++i) {
    if (from->fixed[i] >= 0 && from->fixed[i] != to.coords[i]) return NULL;
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_side_part_at(plan->dst, to.coords, plan->deals, plan->keep, &to.part));
  if (to.part.from == to.part.to) return NULL;
  return send_to(plan, from, &to, &moved, false);
}

// To the positions whose digits choose this replica: every so many-th.
static shoal_status_t send_by_digits(plan_t *plan, sending_t *from, int64_t period) {
  const shoal_roles_t *roles = plan->roles;
  int64_t first = 0;
  for (int32_t i = 0; i < roles->src_mesh->axis_count; ++i) {
    if (!roles->follows[i] || roles->twin[i] >= 0) continue;
    first = first * roles->src_mesh->axes[i].size + from->coords[i];
  }
  for (int64_t q = first, size = shoal_mesh_size(roles->dst_mesh); q < size; q += period) {
    SHOAL_RETURN_IF_ERROR(send_to_position(plan, from, q));
  }
  return NULL;
}

// To ranks that are on the source's mesh too, with this replica's coordinates there.
static shoal_status_t send_to_members(plan_t *plan, sending_t *from) {
  const shoal_roles_t *roles = plan->roles;
  const shoal_mesh_t *mesh = roles->src_mesh;
  int64_t coords[SHOAL_MAX_AXES] = {0};
  for (int32_t i = 0; i < mesh->axis_count; ++i) {
    if (roles->follows[i] && !roles->kept[i]) coords[i] = from->coords[i];
  }
  for (;;) {
    const int32_t rank = shoal_mesh_rank(mesh, shoal_mesh_at(mesh, coords));
    const int64_t position = shoal_mesh_position(roles->dst_mesh, rank);
    if (position >= 0) SHOAL_RETURN_IF_ERROR(send_to_position(plan, from, position));
    int32_t i = mesh->axis_count - 1;
    for (; i >= 0; --i) {
      if (roles->follows[i] && !roles->kept[i]) continue;
      if (++coords[i] < mesh->axes[i].size) break;
      coords[i] = 0;
    }
    if (i < 0) return NULL;
  }
}

enum { FEW = 8 };  // positions that are tried rather than searched for

// Is trying one position in `period` of `size` likely to cost less than a search by parts, which
// leaves out positions that hold other elements, but not those that choose other replicas?
static bool is_few(int64_t size, int64_t period) {
  return size / period <= FEW || period >= size / period;
}

static shoal_status_t send(plan_t *plan, int64_t position, int64_t self, moves_t *moves) {
  const shoal_roles_t *roles = plan->roles;
  sending_t from = {.position = position, .self = self, .moves = moves};
  shoal_mesh_coords(roles->src_mesh, position, from.coords);
  SHOAL_RETURN_IF_ERROR(
      shoal_side_part_at(plan->src, from.coords, plan->deals, plan->keep, &from.part));
  if (from.part.owned == 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_side_products(plan->src, &from.part, false, plan->keep, &from.have));
  int64_t digits = 1, replicas = 1;
  for (int32_t i = 0; i < roles->src_mesh->axis_count; ++i) {
    if (!roles->follows[i]) continue;
    if (roles->twin[i] < 0) digits *= roles->src_mesh->axes[i].size;
    if (!roles->kept[i]) replicas *= roles->src_mesh->axes[i].size;
  }
  from.which = roles->overlap && !roles->same_mesh && roles->block < 0 ? STRANGERS : ALL;
  if (fix_coords(plan, &from)) {
    const bool few =
        digits > 1 && !roles->same_mesh && is_few(shoal_mesh_size(roles->dst_mesh), digits);
    SHOAL_RETURN_IF_ERROR(few ? send_by_digits(plan, &from, digits) : send_by_parts(plan, &from));
  }
  if (from.which == ALL) return NULL;
  from.which = MEMBERS;
  if (!fix_coords(plan, &from)) return NULL;
  const bool few = is_few(shoal_mesh_size(roles->src_mesh), replicas);
  return few ? send_to_members(plan, &from) : send_by_parts(plan, &from);
}

// ---- all together ----------------------------------------------------------------------

static int compare_destinations(const void *a, const void *b) {
  const moved_t *x = a, *y = b;
  return (x->dst > y->dst) - (x->dst < y->dst);
}

static void add_links(const plan_t *plan, const moved_t *moves, int64_t count, shoal_link_t *links,
                      int64_t *link_count) {
  for (int64_t i = 0; i < count; ++i) {
    links[(*link_count)++] =
        (shoal_link_t){.from = shoal_mesh_rank(plan->roles->src_mesh, moves[i].src),
                       .to = shoal_mesh_rank(plan->roles->dst_mesh, moves[i].dst),
                       .piece_count = moves[i].piece_count,
                       .pieces = moves[i].pieces,
                       .count = moves[i].count};
  }
}

static shoal_status_t plan_rank(plan_t *plan, int32_t rank, shoal_links_t *links) {
  moves_t in = {0}, out = {0};
  int64_t there = shoal_mesh_position(plan->roles->dst_mesh, rank);
  int64_t here = plan->roles->same_mesh ? there : shoal_mesh_position(plan->roles->src_mesh, rank);
  if (there >= 0) SHOAL_RETURN_IF_ERROR(receive(plan, there, &in));
  if (here >= 0) SHOAL_RETURN_IF_ERROR(send(plan, here, there, &out));
  if (out.count > 1) qsort(out.items, (size_t)out.count, sizeof *out.items, compare_destinations);
  int64_t before = 0, count = 0;
  while (before < out.count && out.items[before].dst < there) ++before;
  shoal_link_t *list = SHOAL_NEW(plan->out, shoal_link_t, in.count + out.count);
  if (!list) return SHOAL_OOM();
  add_links(plan, out.items, before, list, &count);
  add_links(plan, in.items, in.count, list, &count);
  add_links(plan, out.items + before, out.count - before, list, &count);
  links->items = list;
  links->count = count;
  return NULL;
}

static bool has_halo(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_DIM && (cut->before || cut->after)) return true;
  }
  return false;
}

static plan_t plan_of(const shoal_pair_t *pair, shoal_deals_t *deals, shoal_arena_t *out,
                      shoal_arena_t *keep) {
  return (plan_t){.src = &pair->src,
                  .dst = &pair->dst,
                  .roles = &pair->roles,
                  .rank = pair->rank,
                  .halo = has_halo(pair->src.layout),
                  .deals = deals,
                  .out = out,
                  .keep = keep};
}

shoal_status_t shoal_pair_received(const shoal_pair_t *pair, int64_t position, shoal_deals_t *deals,
                                   shoal_arena_t *arena, int64_t *out_count,
                                   const shoal_transfer_t **out_transfers) {
  moves_t in = {0};
  plan_t plan = plan_of(pair, deals, arena, arena);
  if (!pair->roles.silent) SHOAL_RETURN_IF_ERROR(receive(&plan, position, &in));
  *out_count = in.count;
  *out_transfers = in.items;
  return NULL;
}

shoal_status_t shoal_pair_links(const shoal_pair_t *pair, int32_t rank, shoal_arena_t *arena,
                                shoal_links_t *out_links) {
  shoal_arena_t keep;
  shoal_arena_init(arena->allocator, &keep);
  shoal_deals_t deals = {.arena = &keep};
  plan_t plan = plan_of(pair, &deals, arena, &keep);
  shoal_links_t links = {.kind = SHOAL_RESHARD_BETWEEN,
                         .reduces = pair->roles.joins > 1,
                         .reduce = pair->roles.reduce};
  // What is partial in time on one side only is not joined here, but parts without a contribution
  // start at its identity.
  const shoal_cut_t *later = shoal_layout_micro_partial(pair->src.layout)
                                 ? NULL
                                 : shoal_layout_micro_partial(pair->dst.layout);
  if (later && !links.reduces) links.reduce = later->reduce;
  shoal_status_t status = pair->roles.silent ? NULL : plan_rank(&plan, rank, &links);
  shoal_arena_deinit(&keep);
  if (!status) *out_links = links;
  return status;
}

shoal_status_t shoal_links_list(const shoal_layout_t *src, int64_t src_micro,
                                const shoal_layout_t *dst, int64_t dst_micro,
                                const shoal_shape_t *shape, int32_t rank, shoal_arena_t *arena,
                                shoal_links_t *out_links) {
  shoal_pair_t pair;
  SHOAL_RETURN_IF_ERROR(shoal_pair_init(src, src_micro, dst, dst_micro, shape, &pair));
  return shoal_pair_links(&pair, rank, arena, out_links);
}
