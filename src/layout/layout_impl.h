// Internal header of layout/: what its files share. Nothing here is public.
//
//   mesh.c        meshes: text, coordinates
//   text.c        layouts: parse and print
//   layout.c      layouts: check, compare
//   boxes.c       the meaning of a cut: dealing, chunks, items, halo, flat
//   lists.c       a part as lists of boxes; copies between a whole tensor and a part
//   place.c       a part as an op sees it
//   products.c    sets of elements as products of intervals: intersect, subtract, flat ranges
//   side.c        one layout of a reshard: parts and buffers of its ranks, blocks between buffers
//   owners.c      which coordinates own or hold given elements
//   roles.c       what axes do in a reshard, and who owns an element for whom
//   links.c       a reshard, for one rank
//   motion.c      what a rank does, from its links (motion.h)
//   rank_motion.c the same, from two layouts
//   bundle.c      motions of several values as one (bundle.h)
//   explore.c     all parts along a dim, up to where they lie
//   pair.c        two layouts compared cut by cut
//   cells.c       ranks that layouts cannot tell apart (cells.h)
//   describe.c    which collective a reshard amounts to, from the layouts
//   survey.c      the same, from one rank per cell
//   volume.c      how many elements a rank sends and receives in it
//   path.c        a reshard as the cheapest few steps
//   reshard.c     a reshard, for all ranks: who sends what to whom
//   kind.c        which collective it amounts to, from all its transfers
#ifndef SHOAL_LAYOUT_IMPL_H_
#define SHOAL_LAYOUT_IMPL_H_

#include "base/arena.h"
#include "base/number.h"
#include "base/status.h"
#include "shoal/layout.h"

// ---- axes ------------------------------------------------------------------------------

// `axis` is an index into the mesh or SHOAL_AXIS_MICRO. Sizes are at least 1.
int64_t shoal_layout_axis_size(const shoal_mesh_t *mesh, int32_t axis);
const char *shoal_layout_axis_name(const shoal_mesh_t *mesh, int32_t axis);

// Says whether the cut has no effect, because its axis has one rank.
bool shoal_cut_idle(const shoal_layout_t *layout, const shoal_cut_t *cut);
// Says whether two cuts are equal except for their axes, which have `parts` coordinates each.
bool shoal_cut_alike(const shoal_cut_t *a, const shoal_cut_t *b, int64_t parts);
// The tile of a layout along a dim, or NULL.
static inline const shoal_tile_t *shoal_layout_tile(const shoal_layout_t *layout, int32_t dim) {
  return layout->tile.count > 0 && layout->tile.cut.dim == dim ? &layout->tile : NULL;
}
// Do two layouts have the same tile, or none?
bool shoal_tile_same(const shoal_layout_t *a, const shoal_layout_t *b);

// ---- text ------------------------------------------------------------------------------

// Item `index` as it is written, for messages and printing; -1: the tile. Like snprintf: returns
// the full length.
int shoal_layout_item_format(const shoal_layout_t *layout, int32_t index, char *buffer,
                             size_t capacity);

// The part of a check that needs no shape. Called when a layout is parsed, and by
// shoal_layout_check.
SHOAL_MUST_USE shoal_status_t shoal_layout_check_items(const shoal_layout_t *layout);

// ---- meaning ---------------------------------------------------------------------------

// A cache of distributions by weights, so that looking at all parts costs the number of parts, not
// its square. Starts zeroed except for the arena. Where one is an argument, NULL means no cache.
typedef struct shoal_deal {
  const int64_t *weights;
  int64_t units, parts;
  const int64_t *starts;  // parts + 1
} shoal_deal_t;

typedef struct shoal_deals {
  shoal_deal_t *items;
  int64_t count, capacity;
  shoal_arena_t *arena;
  bool failed;  // memory ran short: whoever can fail does
} shoal_deals_t;

// Units [out_from, out_to) that part `index` of `parts` gets. weights may be NULL.
void shoal_layout_deal(int64_t units, int64_t parts, const int64_t *weights, int64_t index,
                       shoal_deals_t *deals, int64_t *out_from, int64_t *out_to);
// Elements [out_from, out_to) of a packed `length` that part `index` gets, in units of `unit`.
void shoal_layout_deal_length(int64_t length, int64_t unit, int64_t parts, const int64_t *weights,
                              int64_t index, shoal_deals_t *deals, int64_t *out_from,
                              int64_t *out_to);

typedef struct shoal_dim_list {
  shoal_interval_t *items;
  int32_t count;
} shoal_dim_list_t;

// A part along one dim while the cuts are applied to it, outermost first.
typedef struct shoal_dim_state {
  shoal_dim_list_t own;
  bool chunked;           // some cut of the dim has chunks: no halo, own may be several intervals
  int64_t origin;         // where own starts; may lie behind the end of the dim
  int64_t held, held_to;  // an interval; empty when held >= held_to
  bool dealt_items;       // the last cut gave items:
  int64_t items, unit;    // so many of them fell to this part
  shoal_deals_t *deals;
} shoal_dim_state_t;

// Of a dim of which there is only the tile (NULL: all of it).
SHOAL_MUST_USE shoal_status_t shoal_dim_state_init(int64_t length, const shoal_tile_t *tile,
                                                   shoal_deals_t *deals, shoal_arena_t *arena,
                                                   shoal_dim_state_t *out_state);
// Applies a cut of a dim of `length`, for coordinate `index`. Nothing that the state points to is
// changed, so a copy of the struct may be cut in another way.
SHOAL_MUST_USE shoal_status_t shoal_dim_state_cut(const shoal_mesh_t *mesh, const shoal_cut_t *cut,
                                                  int64_t length, int64_t index,
                                                  shoal_arena_t *arena, shoal_dim_state_t *state);
SHOAL_MUST_USE shoal_status_t shoal_dim_state_part(const shoal_dim_state_t *state,
                                                   shoal_arena_t *arena,
                                                   shoal_dim_part_t *out_part);

// How many elements of the list lie between the indices low and high of the dim.
int64_t shoal_dim_list_between(const shoal_dim_list_t *list, int64_t low, int64_t high);
int64_t shoal_cut_chunk_end(const shoal_cut_t *cut, int32_t chunk, int64_t start, int64_t length);

// What coordinate `index` gets of a packed `length` of the outer part (of its elements in a chunk,
// if the cut has chunks), before halo and trimming: [start, end), which may reach behind the
// length. Both ascend with the coordinate. False: it gets nothing.
typedef struct shoal_cut_share {
  int64_t start, end, items;
} shoal_cut_share_t;

bool shoal_cut_share(const shoal_cut_t *cut, int32_t chunk, const shoal_dim_state_t *outer,
                     int64_t length, int64_t parts, int64_t index, shoal_cut_share_t *out);
// How many units, or items, shoal_cut_share distributes.
int64_t shoal_cut_units(const shoal_cut_t *cut, int32_t chunk, const shoal_dim_state_t *outer,
                        int64_t length);

// One rank's part along one dim. `coords` are its mesh coordinates; micro < 0 ignores cuts along
// it. The layout must have passed shoal_layout_check for the whole's shape.
SHOAL_MUST_USE shoal_status_t shoal_layout_dim_part(const shoal_layout_t *layout, int32_t dim,
                                                    int64_t length, const int64_t *coords,
                                                    int64_t micro, shoal_deals_t *deals,
                                                    shoal_arena_t *arena,
                                                    shoal_dim_part_t *out_part);

bool shoal_layout_is_flat(const shoal_layout_t *layout);

// The flat range of a packed part of `total` elements; [0, total) when nothing cuts flat.
void shoal_layout_flat_range(const shoal_layout_t *layout, const int64_t *coords, int64_t total,
                             shoal_deals_t *deals, int64_t *out_from, int64_t *out_to);

// ---- products of intervals -------------------------------------------------------------

// Intervals of one dim: disjoint, sorted, none empty.
typedef struct shoal_spans {
  const shoal_interval_t *items;
  int64_t count;
} shoal_spans_t;

// All index tuples whose dim d lies in dims[d]. Of rank 0 it is the one element of a scalar.
typedef struct shoal_product {
  shoal_spans_t dims[SHOAL_MAX_RANK];
} shoal_product_t;

typedef SHOAL_VEC(shoal_product_t) shoal_products_t;  // disjoint

// Products are of `rank` dims throughout; results borrow from their arguments and from the arena.
// Appends what a and b share, if anything.
SHOAL_MUST_USE shoal_status_t shoal_product_intersect(int32_t rank, const shoal_product_t *a,
                                                      const shoal_product_t *b,
                                                      shoal_arena_t *arena, shoal_products_t *out);
// Appends what is in a but not in b.
SHOAL_MUST_USE shoal_status_t shoal_product_subtract(int32_t rank, const shoal_product_t *a,
                                                     const shoal_product_t *b, shoal_arena_t *arena,
                                                     shoal_products_t *out);
// Appends the row-major range [from, to) of `packed`, packed dense: at most 2 * rank + 1 products,
// in order.
SHOAL_MUST_USE shoal_status_t shoal_product_range(int32_t rank, const shoal_product_t *packed,
                                                  int64_t from, int64_t to, shoal_arena_t *arena,
                                                  shoal_products_t *out);

// ---- reshard ---------------------------------------------------------------------------

// One of the two layouts of a reshard. A dim's part depends only on the axes that cut it: the parts
// are kept per dim and *slot*, the row-major index of the coordinates along those axes.
typedef struct shoal_side {
  const shoal_layout_t *layout;
  const shoal_shape_t *shape;
  int64_t micro;
  bool flat;
  int32_t axis_count[SHOAL_MAX_RANK], axes[SHOAL_MAX_RANK][SHOAL_MAX_AXES];  // by dim
  int32_t flat_axis_count, flat_axes[SHOAL_MAX_AXES];
  int64_t slots[SHOAL_MAX_RANK];
  const shoal_dim_part_t *parts[SHOAL_MAX_RANK];
  const int64_t *const *offsets[SHOAL_MAX_RANK];  // [slot][interval]: held elements before it
  // by mesh axis: does it cut (a dim or flat); the reduction if it is partial, else -1
  bool cuts[SHOAL_MAX_AXES];
  int32_t partial[SHOAL_MAX_AXES];
} shoal_side_t;

// One rank's part on a side, with the geometry of its buffer.
typedef struct shoal_side_part {
  const shoal_dim_part_t *dims[SHOAL_MAX_RANK];
  const int64_t *offsets[SHOAL_MAX_RANK];
  int64_t stride[SHOAL_MAX_RANK];
  int64_t from, to;  // of the packed part, what the buffer stores
  int64_t owned;     // elements
  bool halo;         // holds more than it owns
} shoal_side_part_t;

// Finds what the axes do on a side, without the parts. shoal_side_init finds the parts, too.
SHOAL_MUST_USE shoal_status_t shoal_side_axes(const shoal_layout_t *layout,
                                              const shoal_shape_t *shape, int64_t micro,
                                              shoal_side_t *out_side);
SHOAL_MUST_USE shoal_status_t shoal_side_init(const shoal_layout_t *layout,
                                              const shoal_shape_t *shape, int64_t micro,
                                              shoal_arena_t *arena, shoal_side_t *out_side);
int64_t shoal_side_slot(const shoal_side_t *side, int32_t dim, const int64_t *coords);
void shoal_side_part(const shoal_side_t *side, const int64_t *coords, shoal_side_part_t *out_part);
// For sides without parts. The held elements before each interval, for a slot;
SHOAL_MUST_USE shoal_status_t shoal_slot_offsets(const shoal_dim_part_t *part, shoal_arena_t *arena,
                                                 const int64_t **out_offsets);
// the part of `coords`, worked out;
SHOAL_MUST_USE shoal_status_t shoal_side_part_at(const shoal_side_t *side, const int64_t *coords,
                                                 shoal_deals_t *deals, shoal_arena_t *arena,
                                                 shoal_side_part_t *out_part);
// and what follows from a part's dims and offsets, which are there: all of it, but for flat ranges.
void shoal_side_part_shape(const shoal_side_t *side, shoal_side_part_t *part);
// Position of index `global` of a dim among the held elements; it must be held.
int64_t shoal_side_local(const shoal_side_part_t *part, int32_t dim, int64_t global);

// What a part owns, or with `held` what it holds, as products.
SHOAL_MUST_USE shoal_status_t shoal_side_products(const shoal_side_t *side,
                                                  const shoal_side_part_t *part, bool held,
                                                  shoal_arena_t *arena, shoal_products_t *out);
// ---- roles -----------------------------------------------------------------------------

// What the axes of two layouts do in a reshard (roles.c).
typedef struct shoal_roles {
  const shoal_mesh_t *src_mesh, *dst_mesh;
  bool same_mesh;
  bool overlap;  // some rank is on both meshes
  // The source's mesh is one block of the destination's, which has its axes behind one more, as a
  // stage's mesh of all ranks' has: which block; else -1. Own coordinates are the twins' then.
  int64_t block;
  // by source axis
  bool joined[SHOAL_MAX_AXES];
  bool kept[SHOAL_MAX_AXES];
  bool follows[SHOAL_MAX_AXES];  // kept or replicating: a destination decides the coordinate
  int32_t twin[SHOAL_MAX_AXES];  // the destination's axis of that name and size, or -1
  // by destination axis: partial there only; coordinate 0 gets the value
  bool spread[SHOAL_MAX_AXES];
  bool spreads;   // along some axis, or micro
  bool silent;    // partial in time, and this is not the first micro-batch: nothing moves
  int64_t joins;  // contributions per element
  shoal_reduce_t reduce;
} shoal_roles_t;

// UNSUPPORTED for two reductions at once.
SHOAL_MUST_USE shoal_status_t shoal_roles_find(const shoal_side_t *src, const shoal_side_t *dst,
                                               shoal_roles_t *out_roles);
// The coordinates, along the source's axes that follow, from which a destination takes what it
// needs (0 along the others). `self` is the position of the destination's rank on the source's
// mesh, or -1.
void shoal_roles_source(const shoal_roles_t *roles, int64_t position, const int64_t *coords,
                        int64_t self, int64_t out_source[SHOAL_MAX_AXES]);
// Makes the error for a destination of which only some elements are covered; it names the first
// that is not.
SHOAL_MUST_USE shoal_status_t shoal_roles_unowned(int32_t rank, const shoal_products_t *need,
                                                  const shoal_products_t *covered, int64_t position,
                                                  shoal_arena_t *scratch);
// The cut that makes a layout partial along micro, or NULL.
const shoal_cut_t *shoal_layout_micro_partial(const shoal_layout_t *layout);

typedef SHOAL_VEC(shoal_piece_t) shoal_pieces_t;
// Appends the blocks that carry `product` from one buffer to the other; adjacent ones are joined.
SHOAL_MUST_USE shoal_status_t shoal_pieces_add(int32_t rank, const shoal_side_part_t *src,
                                               const shoal_side_part_t *dst,
                                               const shoal_product_t *product, shoal_arena_t *arena,
                                               shoal_pieces_t *pieces);

// ---- owners ----------------------------------------------------------------------------

// A slot of a dim, found: the row-major index of the coordinates along the axes that cut the dim,
// in the order of the cuts; and the part.
typedef struct shoal_slot {
  int64_t index;
  shoal_dim_part_t part;
  const int64_t *offsets;  // held elements before each interval
} shoal_slot_t;
typedef SHOAL_VEC(shoal_slot_t) shoal_slots_t;

typedef struct shoal_owners {
  const shoal_layout_t *layout;
  int64_t micro;
  int32_t dim;
  bool held;             // who holds, else who owns, some of
  shoal_spans_t want;    // these elements
  const int64_t *fixed;  // by axis: only this coordinate; -1: any. NULL: any of all
} shoal_owners_t;

// The slots of a dim of `length` that own or hold some of the wanted elements, ascending.
SHOAL_MUST_USE shoal_status_t shoal_owners_find(const shoal_owners_t *query, int64_t length,
                                                shoal_deals_t *deals, shoal_arena_t *arena,
                                                shoal_slots_t *out_slots);

// A flat range, found: the row-major index of the coordinates along the axes that cut flat.
typedef struct shoal_flat {
  int64_t index, from, to;
} shoal_flat_t;
typedef SHOAL_VEC(shoal_flat_t) shoal_flats_t;

// The flat ranges of a packed part of `total` elements that meet [from, to), ascending. The list is
// emptied first.
SHOAL_MUST_USE shoal_status_t shoal_owners_flat(const shoal_layout_t *layout, const int64_t *fixed,
                                                int64_t total, int64_t from, int64_t to,
                                                shoal_deals_t *deals, shoal_arena_t *arena,
                                                shoal_flats_t *out_flats);

// ---- exploring -------------------------------------------------------------------------

typedef SHOAL_VEC(int64_t) shoal_points_t;
void shoal_points_sort(shoal_points_t *points);  // ascending, each once

// A part along a dim, as one representative coordinate of each cut makes it, and how it was after
// the first `base` cuts.
typedef struct shoal_dim_rep {
  shoal_dim_state_t state, base;
} shoal_dim_rep_t;
typedef SHOAL_VEC(shoal_dim_rep_t) shoal_dim_reps_t;

typedef struct shoal_explore {
  const shoal_mesh_t *mesh;
  int32_t cut_count;  // of one dim, or the flat ones
  const shoal_cut_t *const *cuts;
  int32_t base;
  int64_t length;            // of the dim
  const shoal_tile_t *tile;  // along the dim; NULL: none
  int64_t micro;             // of a cut along micro; negative: all of them, as an axis
  shoal_deals_t *deals;
  shoal_arena_t *arena;
  shoal_points_t *breaks;  // by axis, micro last: where runs start, appended. NULL: not wanted
  bool *deals_out;         // by axis: set where two coordinates get something. NULL: not wanted
} shoal_explore_t;

// All parts along a dim, up to where they lie.
SHOAL_MUST_USE shoal_status_t shoal_dim_explore(const shoal_explore_t *how,
                                                shoal_dim_reps_t *out_reps);
// What flat cuts leave of packed parts of `lengths` elements, which it replaces.
SHOAL_MUST_USE shoal_status_t shoal_flat_explore(const shoal_explore_t *how,
                                                 shoal_points_t *lengths);
// Sizes of packed parts: the products of what dims can own.
SHOAL_MUST_USE shoal_status_t shoal_flat_totals(int32_t rank, const shoal_dim_reps_t *dims,
                                                shoal_arena_t *arena, shoal_points_t *out_totals);

// ---- pairs -----------------------------------------------------------------------------

// The cuts of one dim (or the flat ones) that do something, outermost first. Behind the first
// `same`, which the other side has too, they differ.
typedef struct shoal_cut_list {
  int32_t count, same;
  const shoal_cut_t *cuts[SHOAL_MAX_CUTS];
} shoal_cut_list_t;

// Two layouts of a reshard, compared cut by cut. Lists are by dim; the last has the flat cuts.
typedef struct shoal_pair {
  shoal_side_t src, dst;
  shoal_roles_t roles;
  bool any_micro;  // both in the same micro-batch, whichever
  int32_t rank;    // dims
  shoal_cut_list_t src_cuts[SHOAL_MAX_RANK + 1], dst_cuts[SHOAL_MAX_RANK + 1];
} shoal_pair_t;
// Is there another part of the dim on one side than on the other?
bool shoal_pair_tiles_differ(const shoal_pair_t *pair, int32_t dim);

SHOAL_MUST_USE shoal_status_t shoal_pair_init(const shoal_layout_t *src, int64_t src_micro,
                                              const shoal_layout_t *dst, int64_t dst_micro,
                                              const shoal_shape_t *shape, shoal_pair_t *out_pair);
// What the rank at a position of the destination gets, in the order of the sources' coordinates.
SHOAL_MUST_USE shoal_status_t shoal_pair_received(const shoal_pair_t *pair, int64_t position,
                                                  shoal_deals_t *deals, shoal_arena_t *arena,
                                                  int64_t *out_count,
                                                  const shoal_transfer_t **out_transfers);
struct shoal_links;
SHOAL_MUST_USE shoal_status_t shoal_pair_links(const shoal_pair_t *pair, int32_t rank,
                                               shoal_arena_t *arena, struct shoal_links *out_links);
// Says when ranks are looked at to find the kind of a reshard: where the layouts do not determine
// it, always, or never.
typedef enum shoal_look { SHOAL_LOOK_IF_NEEDED, SHOAL_LOOK_ALWAYS, SHOAL_LOOK_NEVER } shoal_look_t;

// Finds the kind of the reshard. *out_known says whether the layouts determine it; if they do not
// and ranks are never looked at, the facts are not to be used. shoal_pair_survey only looks at
// ranks; `covered` says that every element is known to be owned.
SHOAL_MUST_USE shoal_status_t shoal_pair_describe(const shoal_pair_t *pair,
                                                  shoal_allocator_t allocator, shoal_look_t look,
                                                  bool *out_known,
                                                  shoal_reshard_facts_t *out_facts);
SHOAL_MUST_USE shoal_status_t shoal_pair_survey(const shoal_pair_t *pair, bool covered,
                                                shoal_arena_t *scratch,
                                                shoal_reshard_facts_t *facts);
// Elements that a rank sends to and receives from others, each at its most.
SHOAL_MUST_USE shoal_status_t shoal_pair_volume(const shoal_pair_t *pair,
                                                const shoal_reshard_facts_t *facts,
                                                shoal_arena_t *scratch, int64_t *out_sent,
                                                int64_t *out_received);
struct shoal_reshard_cells;
SHOAL_MUST_USE shoal_status_t shoal_pair_cells(const shoal_pair_t *pair, shoal_arena_t *arena,
                                               struct shoal_reshard_cells *out_cells);

// The facts from which the kind of a reshard is decided.
typedef struct shoal_reshard_evidence {
  const shoal_side_t *src, *dst;
  bool same_mesh;
  bool joined[SHOAL_MAX_AXES];  // source axes that are summed over
  bool spreads;                 // the destination is partial along axes where the source is not
} shoal_reshard_evidence_t;

SHOAL_MUST_USE shoal_status_t shoal_reshard_classify(const shoal_reshard_evidence_t *facts,
                                                     shoal_arena_t *arena,
                                                     shoal_reshard_t *reshard);

#endif  // SHOAL_LAYOUT_IMPL_H_
