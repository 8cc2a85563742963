// Shoal, layout: who holds which elements of a value.
//
// A *mesh* puts ranks on named axes. A *layout* says, axis by axis, how a value is cut over a mesh.
// One function, shoal_layout_boxes, knows what a layout means: resharding, random numbers, feeds,
// checkpoints and checks all call it. Everything here is *Not collective*, does not block, and
// allocates only from the arena it is given.
//
// Text forms (print and parse back):
//   mesh     [name!]axis=size,axis=size,...[@rank,rank-rank,...], as in "b!data=3@2-4";
//            the reserved axis micro=n is time: it is not counted in ranks
//   layout   [mesh!][tile,]item,item,...      "" or "replicated": no cuts
//     tile   tile(index/count):dim[*chunks][/unit]     a part of the value only
//     item   axis[>turn]:dim[*chunks][/unit][#items][(weights)][+before+after]     a cut
//            axis:flat[/unit][(weights)]                                     flat range of the rest
//            axis:partial(sum|max|min|lse)                                   unreduced
//     chunks *3 (equal) or *(2048/256,512/64,512/64) (lengths, each with its own unit)
//     before, after: -n trims, so "+1-1" and "-1+0" are valid
//
// Meaning of one cut along a dim of length L, over an axis of n ranks (a rank's part so far is a
// list of intervals, at first [0, L)):
//   - with chunks, each chunk (an interval of the whole dim) intersected with the part is cut on
//     its own;
//   - what is cut is packed; it holds ceil(length / unit) units, the last one perhaps short - or
//     exactly `items` units if given: then the last part that has any takes the rest;
//   - units are dealt balanced, the first parts one larger; with weights by largest remainder, ties
//     to the first; parts may be empty;
//   - the next cut on the same dim counts from the start of that part. If both give items and the
//     same unit, the inner one deals the items the outer part got;
//   - halo: held = owned widened by `before` and `after` elements (of the innermost cut on the
//     dim), clipped to what the cut outside it holds; a negative number trims what is held *and*
//     owned. A part without items holds nothing.
//   - turn: turned by t, the rank at coordinate c has the part that coordinate c + t (modulo n) has
//     without the turn. In "context>1:2" every rank has the part of the next one, as in a ring.
//     Turned cuts have no halo; micro does not turn.
// flat counts row-major in the packed part that all other cuts leave; several flats nest. Halo with
// chunks or flat is refused. micro, if it cuts, is written first: it is outermost.
//
// A *tile* is one of `count` parts into which a value is divided to be made or moved one after the
// other: no rank has anything else. It comes before all cuts, which deal out what it leaves. Its
// dim (every chunk of it on its own) is dealt like a cut, in units; a chunk for each rank's part
// makes every rank have a share of every tile. Micro-batches, items and halos along its dim, and
// flat cuts, are refused.
#ifndef SHOAL_LAYOUT_H_
#define SHOAL_LAYOUT_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Mesh
// -------------------------------------------------------------------------------------------------

#define SHOAL_MAX_AXES 8
#define SHOAL_NAME_SIZE 32

typedef struct shoal_axis {
  char name[SHOAL_NAME_SIZE];
  int64_t size;
} shoal_axis_t;

typedef struct shoal_mesh {
  char name[SHOAL_NAME_SIZE];  // "" for a plan's only mesh
  int32_t axis_count;
  shoal_axis_t axes[SHOAL_MAX_AXES];  // outermost first, micro not among them
  int64_t micro;                      // size of the micro axis; 0 and 1 mean no micro-batches
  const int32_t *ranks;               // rank at each row-major position; NULL: 0, 1, 2, ...
  // Positions by ascending rank, as shoal_mesh_sort makes them: finding a rank is a bisection then.
  // NULL: ranks are searched one by one. Whoever replaces `ranks` replaces `order` too.
  const int32_t *order;
} shoal_mesh_t;

// Text "name!data=2,tensor=4,micro=3@0-7" and back; the list of ranks and the text are in the
// arena.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_parse(const char *text, shoal_arena_t *arena,
                                                         shoal_mesh_t *out_mesh);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_print(const shoal_mesh_t *mesh,
                                                         shoal_arena_t *arena,
                                                         const char **out_text);
// Fills `order` of a mesh whose `ranks` were set by hand; the order is in the arena.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_sort(shoal_mesh_t *mesh, shoal_arena_t *arena);
// A copy whose lists are in the arena.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_copy(const shoal_mesh_t *mesh,
                                                        shoal_arena_t *arena,
                                                        shoal_mesh_t *out_mesh);
SHOAL_API int64_t shoal_mesh_size(const shoal_mesh_t *mesh);                    // ranks on it
SHOAL_API int32_t shoal_mesh_axis(const shoal_mesh_t *mesh, const char *name);  // index or -1
// Positions are row-major in the coordinates, which are one per axis and 0 after the last; they
// are not checked.
SHOAL_API int32_t shoal_mesh_rank(const shoal_mesh_t *mesh, int64_t position);
SHOAL_API int64_t shoal_mesh_position(const shoal_mesh_t *mesh, int32_t rank);  // -1: not on it
SHOAL_API void shoal_mesh_coords(const shoal_mesh_t *mesh, int64_t position,
                                 int64_t out_coords[SHOAL_MAX_AXES]);
SHOAL_API int64_t shoal_mesh_at(const shoal_mesh_t *mesh, const int64_t coords[SHOAL_MAX_AXES]);
SHOAL_API bool shoal_mesh_equal(const shoal_mesh_t *a, const shoal_mesh_t *b);  // names apart
// Is the rank at each position one more than that before it?
SHOAL_API bool shoal_mesh_is_consecutive(const shoal_mesh_t *mesh);
SHOAL_API bool shoal_mesh_overlap(const shoal_mesh_t *a,
                                  const shoal_mesh_t *b);  // true if they share a rank

// -------------------------------------------------------------------------------------------------
// Layout
// -------------------------------------------------------------------------------------------------

#define SHOAL_MAX_CUTS 12
#define SHOAL_MAX_CHUNKS 8
#define SHOAL_AXIS_MICRO (-1)
#define SHOAL_NO_ITEMS \
  (-1)  // "#0" as a cut's items: nothing is dealt, the first part takes the rest

typedef enum shoal_cut_kind { SHOAL_CUT_DIM, SHOAL_CUT_FLAT, SHOAL_CUT_PARTIAL } shoal_cut_kind_t;

// How partial parts are reduced (reduce.inc). lse joins logarithms: log(exp a + exp b).
typedef enum shoal_reduce {
#define SHOAL_REDUCE_KIND(id, name, real_identity, integer_identity) SHOAL_REDUCE_##id,
#include "shoal/reduce.inc"
#undef SHOAL_REDUCE_KIND
} shoal_reduce_t;

SHOAL_API const char *shoal_reduce_name(shoal_reduce_t reduce);  // "sum"; "?" for what is none

typedef struct shoal_chunk {
  int64_t length, unit;  // unit 0 means the cut's unit
} shoal_chunk_t;

typedef struct shoal_cut {
  int32_t axis;  // index into the mesh's axes, or SHOAL_AXIS_MICRO
  shoal_cut_kind_t kind;
  int32_t dim;            // SHOAL_CUT_DIM
  shoal_reduce_t reduce;  // SHOAL_CUT_PARTIAL
  int64_t unit;           // 0 means 1
  int64_t items;          // 0: as many units as there are; SHOAL_NO_ITEMS: none
  int64_t before, after;  // halo; negative trims
  int64_t turn;           // coordinate c has the part of c + turn, modulo the ranks along the axis
  int32_t chunk_count;    // 0: not chunked. Equal chunks when chunks[0].length is 0
  shoal_chunk_t chunks[SHOAL_MAX_CHUNKS];
  const int64_t *weights;  // one per rank along the axis, or NULL
} shoal_cut_t;

// A layout without tiles has a count of 0.
typedef struct shoal_tile {
  int32_t index, count;
  shoal_cut_t cut;  // its dim, unit and chunks; the rest is zero
} shoal_tile_t;

typedef struct shoal_layout {
  const shoal_mesh_t *mesh;
  int32_t cut_count;
  shoal_cut_t cuts[SHOAL_MAX_CUTS];  // as written: outermost first
  shoal_tile_t tile;
} shoal_layout_t;

// Parses against the given meshes (the first is the default). The layout borrows the mesh.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_layout_parse(const char *text,
                                                           const shoal_mesh_t *meshes,
                                                           int64_t mesh_count, shoal_arena_t *arena,
                                                           shoal_layout_t *out_layout);
// The canonical spelling, in the arena: it parses back to the same layout.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_layout_print(const shoal_layout_t *layout,
                                                           shoal_arena_t *arena,
                                                           const char **out_text);
// Checks that the layout is valid for this shape; an error names the item that is not.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_layout_check(const shoal_layout_t *layout,
                                                           const shoal_shape_t *shape);
// Compares two layouts as they are written: same mesh, same cuts. Units of 0 and 1 are equal, and
// cuts along axes of size 1 are ignored.
SHOAL_API bool shoal_layout_equal(const shoal_layout_t *a, const shoal_layout_t *b);
// The item along an axis (or SHOAL_AXIS_MICRO), or NULL: an axis is written at most once.
SHOAL_API const shoal_cut_t *shoal_layout_along(const shoal_layout_t *layout, int32_t axis);
SHOAL_API bool shoal_layout_is_partial(const shoal_layout_t *layout);  // along any axis

// -------------------------------------------------------------------------------------------------
// Boxes: the meaning of a layout
// -------------------------------------------------------------------------------------------------

typedef struct shoal_interval {
  int64_t start, size;
} shoal_interval_t;

typedef struct shoal_dim_part {
  int32_t own_count, held_count;  // intervals, disjoint, sorted, adjacent ones merged, none empty
  const shoal_interval_t *own, *held;  // held covers own (it is own plus halo)
  int64_t own_size, held_size;
} shoal_dim_part_t;

// One rank's part of a value: the product of its dims' intervals; with flat, a row-major range of
// that product packed dense. A rank stores what it *holds*, packed dense (flat: to - from elements,
// 1-d).
typedef struct shoal_boxes {
  shoal_shape_t whole;
  shoal_dim_part_t dims[SHOAL_MAX_RANK];
  bool flat;
  int64_t from, to;
} shoal_boxes_t;

// The part of the rank at `position` in micro-batch `micro` (0 when there are none; -1 for the part
// over all micro-batches, i.e. ignoring cuts along micro).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_layout_boxes(const shoal_layout_t *layout,
                                                           const shoal_shape_t *shape,
                                                           int64_t position, int64_t micro,
                                                           shoal_arena_t *arena,
                                                           shoal_boxes_t *out_boxes);
// Shape of the dense buffer that stores the held part.
SHOAL_API shoal_shape_t shoal_boxes_shape(const shoal_boxes_t *boxes);

typedef struct shoal_box {
  int64_t start[SHOAL_MAX_RANK], size[SHOAL_MAX_RANK];
} shoal_box_t;

// Lists the owned boxes, sorted by start (flat ranges are *not* applied); the second lists the
// boxes that are held beyond them.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_boxes_list(const shoal_boxes_t *boxes,
                                                         shoal_arena_t *arena,
                                                         const shoal_box_t **out_boxes,
                                                         int64_t *out_count);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_boxes_halo(const shoal_boxes_t *boxes,
                                                         shoal_arena_t *arena,
                                                         const shoal_box_t **out_boxes,
                                                         int64_t *out_count);

// -------------------------------------------------------------------------------------------------
// Transfers: which elements move between which ranks to get from one layout to another
// -------------------------------------------------------------------------------------------------

// A block of elements: where it starts in the two dense buffers and how it is laid out in each.
typedef struct shoal_piece {
  int32_t rank;  // dims of the block
  int64_t size[SHOAL_MAX_RANK];
  int64_t src_offset, src_stride[SHOAL_MAX_RANK];  // in elements
  int64_t dst_offset, dst_stride[SHOAL_MAX_RANK];
} shoal_piece_t;

typedef struct shoal_transfer {
  int64_t src, dst;  // positions on the source's and destination's mesh
  int64_t piece_count;
  const shoal_piece_t *pieces;
  int64_t count;  // elements in all
} shoal_transfer_t;

typedef enum shoal_reshard_kind {
  SHOAL_RESHARD_NONE,   // the same parts on the same ranks
  SHOAL_RESHARD_SLICE,  // every rank has what it needs: a local copy
  SHOAL_RESHARD_ALL_REDUCE,
  SHOAL_RESHARD_REDUCE_SCATTER,
  SHOAL_RESHARD_ALL_GATHER,
  SHOAL_RESHARD_ALL_TO_ALL,
  SHOAL_RESHARD_HALO,     // only halos are filled
  SHOAL_RESHARD_BETWEEN,  // between meshes, or anything else: repartition
  SHOAL_RESHARD_PERMUTE   // of a path's steps only: every part goes whole to one other rank
} shoal_reshard_kind_t;

// A reshard, planned once. For a destination element, contributions come from one source rank or -
// if the source is partial along axes the destination is not - from one rank per coordinate of
// those axes, joined with `reduce` in the order of the transfers (ascending source coordinate). A
// destination that is partial where the source is not gets the value at coordinate 0 and the
// identity of the reduction elsewhere (those destinations simply have no transfer; buffers start at
// the identity). A rank that holds an element itself always takes its own; otherwise replicas share
// the load by position.
typedef struct shoal_reshard {
  shoal_reshard_kind_t kind;
  // The collective of that name does it: within a group - the sources of a destination, in order -
  // every part is dense, none is empty, and they lie in the whole in the group's order. Always so
  // for all_reduce, never for kinds after all_gather.
  bool collective;
  bool reduces;
  shoal_reduce_t reduce;
  int64_t transfer_count;  // sorted by dst, then by source coordinate order
  const shoal_transfer_t *transfers;
} shoal_reshard_t;

// What kind of communication a reshard is: the same `kind`, `collective`, `reduces` and `reduce` as
// in shoal_reshard_t.
typedef struct shoal_reshard_facts {
  shoal_reshard_kind_t kind;
  bool collective;
  bool reduces;
  shoal_reduce_t reduce;
  bool axes[SHOAL_MAX_AXES];  // of the mesh: along which ranks may exchange something
  int64_t group;              // ranks along these, or on two different meshes together; 1: none
} shoal_reshard_facts_t;

// Finds which collective the move of a value from one layout to another amounts to, in the given
// micro-batches (-1: over all of them), without listing transfers. Its cost depends on axes and
// dims. Where two different cuts of one dim or halos are involved it also grows with the ranks
// along those axes, and between meshes that share some ranks with the number of ranks. MISMATCH if
// an element is owned by a rank that does not hold it (a trimmed source), UNSUPPORTED for two
// reductions at once.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_reshard_describe(
    const shoal_layout_t *src, int64_t src_micro, const shoal_layout_t *dst, int64_t dst_micro,
    const shoal_shape_t *shape, shoal_allocator_t allocator, shoal_reshard_facts_t *out_facts);

// One step of a path is a reshard of its own. Every rank takes the steps in order.
typedef struct shoal_reshard_step {
  const shoal_layout_t *src, *dst;
  int64_t src_micro, dst_micro;
  shoal_reshard_facts_t facts;
  // The most elements that any rank sends to others, and receives from others.
  int64_t sent, received;
} shoal_reshard_step_t;

typedef struct shoal_reshard_path {
  int64_t step_count;  // at least 1
  const shoal_reshard_step_t *steps;
} shoal_reshard_path_t;

// Finds the steps from one layout to another that move the fewest elements; a step counts as the
// larger of its `sent` and `received`. There is one step where the reshard is of one kind, or where
// no sequence of steps moves fewer elements. An all_reduce counts as a reduce_scatter and an
// all_gather. The layouts in between pass shoal_layout_check, are on the mesh of the source or of
// the destination, and lie in the arena; the first and the last layout are the arguments. Cost and
// errors are as for shoal_reshard_describe.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_reshard_path(
    const shoal_layout_t *src, int64_t src_micro, const shoal_layout_t *dst, int64_t dst_micro,
    const shoal_shape_t *shape, shoal_arena_t *arena, shoal_reshard_path_t *out_path);

// Lists the transfers of all ranks for the move of a value from one layout to another, between any
// two meshes, in the given micro-batches (-1: over all of them). Its cost grows with the number of
// pairs of ranks that exchange data: use it in tests, and in tools for few ranks. Transfers are in
// the arena. Errors are those of shoal_reshard_describe.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_layout_reshard(
    const shoal_layout_t *src, int64_t src_micro, const shoal_layout_t *dst, int64_t dst_micro,
    const shoal_shape_t *shape, shoal_arena_t *arena, shoal_reshard_t *out_reshard);
SHOAL_API const char *shoal_reshard_name(shoal_reshard_kind_t kind);  // "all_reduce"

// Copies between a whole tensor and a rank's dense buffer (elements of `element` bytes).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_boxes_pack(const shoal_boxes_t *boxes, size_t element,
                                                         const void *whole, void *out_part);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_boxes_unpack(const shoal_boxes_t *boxes,
                                                           size_t element, const void *part,
                                                           bool owned_only, void *out_whole);

// -------------------------------------------------------------------------------------------------
// Place: what an op is told about where its part lies (see op.h)
// -------------------------------------------------------------------------------------------------

// index[d][i] is the whole's index of the part's i-th element along dim d; NULL is the identity.
// With flat, the part is the row-major range [from, to) of the dense `part`.
typedef struct shoal_place {
  shoal_shape_t whole, part;
  const int64_t *index[SHOAL_MAX_RANK];
  bool flat;
  int64_t from, to;
} shoal_place_t;

// The place of a rank's part (its indices are in the arena), and that of the whole, which borrows
// nothing.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_boxes_place(const shoal_boxes_t *boxes,
                                                          shoal_arena_t *arena,
                                                          shoal_place_t *out_place);
SHOAL_API shoal_place_t shoal_place_whole(const shoal_shape_t *shape);
// Row-major index in the whole of the part's i-th element (row-major in the part, or in the flat
// range).
SHOAL_API int64_t shoal_place_global(const shoal_place_t *place, int64_t element);
// Position along dim d in the part of whole index g, or -1 if the part does not have it.
SHOAL_API int64_t shoal_place_local(const shoal_place_t *place, int32_t dim, int64_t global);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_LAYOUT_H_
