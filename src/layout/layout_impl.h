// Layout, inside: what the files of this folder share. Nothing here is public.
//
//   mesh.c        meshes: text, coordinates
//   text.c        layouts: parse and print
//   layout.c      layouts: check, compare
//   boxes.c       the meaning of a cut: dealing, chunks, items, halo, flat
//   lists.c       a part as lists of boxes; copies between a whole tensor and a part
//   place.c       a part as an op sees it
//   products.c    sets of elements as products of intervals: intersect, subtract, flat ranges
//   side.c        one layout of a reshard: parts and buffers of its ranks, blocks between buffers
//   reshard.c     who sends what to whom
//   kind.c        which collective a reshard amounts to
#ifndef SHOAL_LAYOUT_IMPL_H_
#define SHOAL_LAYOUT_IMPL_H_

#include "base/arena.h"
#include "base/status.h"
#include "shoal/layout.h"

static inline int64_t shoal_min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t shoal_max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// ---- axes ------------------------------------------------------------------------------

// `axis` is an index into the mesh or SHOAL_AXIS_MICRO. Sizes are at least 1.
int64_t shoal_layout_axis_size(const shoal_mesh_t *mesh, int32_t axis);
const char *shoal_layout_axis_name(const shoal_mesh_t *mesh, int32_t axis);

// ---- text ------------------------------------------------------------------------------

// Item `index` as it is written, for messages and printing. Like snprintf: returns the full length.
int shoal_layout_item_format(const shoal_layout_t *layout, int32_t index, char *buffer,
                             size_t capacity);

// The part of a check that needs no shape. Called when a layout is parsed, and by
// shoal_layout_check.
SHOAL_MUST_USE shoal_status_t shoal_layout_check_items(const shoal_layout_t *layout);

// ---- meaning ---------------------------------------------------------------------------

// Units [out_from, out_to) that part `index` of `parts` gets. weights may be NULL.
void shoal_layout_deal(int64_t units, int64_t parts, const int64_t *weights, int64_t index,
                       int64_t *out_from, int64_t *out_to);

// One rank's part along one dim. `coords` are its mesh coordinates; micro < 0 ignores cuts along
// it. The layout must have passed shoal_layout_check for the whole's shape.
SHOAL_MUST_USE shoal_status_t shoal_layout_dim_part(const shoal_layout_t *layout, int32_t dim,
                                                    int64_t length, const int64_t *coords,
                                                    int64_t micro, shoal_arena_t *arena,
                                                    shoal_dim_part_t *out_part);

bool shoal_layout_is_flat(const shoal_layout_t *layout);

// The flat range of a packed part of `total` elements; [0, total) when nothing cuts flat.
void shoal_layout_flat_range(const shoal_layout_t *layout, const int64_t *coords, int64_t total,
                             int64_t *out_from, int64_t *out_to);

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

SHOAL_MUST_USE shoal_status_t shoal_side_init(const shoal_layout_t *layout,
                                              const shoal_shape_t *shape, int64_t micro,
                                              shoal_arena_t *arena, shoal_side_t *out_side);
int64_t shoal_side_slot(const shoal_side_t *side, int32_t dim, const int64_t *coords);
void shoal_side_part(const shoal_side_t *side, const int64_t *coords, shoal_side_part_t *out_part);
// What a part owns, or with `held` what it holds, as products.
SHOAL_MUST_USE shoal_status_t shoal_side_products(const shoal_side_t *side,
                                                  const shoal_side_part_t *part, bool held,
                                                  shoal_arena_t *arena, shoal_products_t *out);
typedef SHOAL_VEC(shoal_piece_t) shoal_pieces_t;
// Appends the blocks that carry `product` from one buffer to the other; adjacent ones are joined.
SHOAL_MUST_USE shoal_status_t shoal_pieces_add(int32_t rank, const shoal_side_part_t *src,
                                               const shoal_side_part_t *dst,
                                               const shoal_product_t *product, shoal_arena_t *arena,
                                               shoal_pieces_t *pieces);

// What the kind of a reshard is decided from.
typedef struct shoal_reshard_facts {
  const shoal_side_t *src, *dst;
  bool same_mesh;
  bool joined[SHOAL_MAX_AXES];  // source axes that are summed over
  bool spreads;                 // the destination is partial along axes where the source is not
} shoal_reshard_facts_t;

SHOAL_MUST_USE shoal_status_t shoal_reshard_classify(const shoal_reshard_facts_t *facts,
                                                     shoal_arena_t *arena,
                                                     shoal_reshard_t *reshard);

#endif  // SHOAL_LAYOUT_IMPL_H_
