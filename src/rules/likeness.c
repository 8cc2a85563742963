// Likenesses. A rule is found by executing a call, and the calls of real models are too large for
// that. How a call may be cut depends on which of its sizes are equal, multiples or products of
// each other, not on how large they are: so discovery executes a call in which large sizes are
// replaced by small ones without common divisors, equal ones by the same, and the ways found are
// lifted back.
//
// Sizes are *classes*: the distinct lengths of input dims and size attributes. A class follows
// another if its size is a multiple of it (grouped heads: only where the op refuses to have them
// independent) or nearly one (strides, kernels), and is recomputed from it. Windows (slices, rows
// of inputs) keep their proportions: sizes and positions of such a dim are divided by a common
// factor. Reshapes are regrouped (regroup.c). A replacement is kept if the op still accepts its
// operands and lengths are equal where they were and differ where they did; otherwise that class
// keeps its size.
//
// What is lifted is checked against the real sizes, and its parts' shapes with the real op
// (discover.c); where anything does not fit, discovery falls back to the real call.
#include "rules/likeness.h"

#include <stdlib.h>

#include "base/status.h"

enum {
  MAX_CLASSES = 48,
  SMALL_ELEMENTS = 1 << 13,  // calls up to here are executed as they are
  SMALL_FLOPS = 1 << 18,
  LEAST = 4,      // items enough for three parts, units of two and any order
  MAX_REST = 64,  // elements that a stride leaves over at most
};

// Small sizes without common divisors.
static const int64_t SIZES[] = {4,  5,  7,  9,  11, 13, 17, 19, 23, 29,
                                31, 37, 41, 43, 47, 53, 59, 61, 67};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

typedef struct size_class {
  int64_t real, small;
  int32_t followed;  // its size is times * that class's + plus; -1: its own
  int64_t times, plus;
  bool windowed;
  bool slid_over;  // kernels may move along such a dim
  bool kernel;     // and have such a size, which must not change
} size_class_t;

typedef struct maker {
  const shoal_call_t *real;
  shoal_type_t *types, *small_types;  // inputs, then outputs
  shoal_attr_value_t *small_attrs;
  int32_t operand_count;
  bool slides;
  bool *has_place;        // by operand
  int64_t largest_plain;  // kernels, strides, paddings: what is slid over stays larger
  bool larger;            // much larger
  int32_t count;
  size_class_t classes[MAX_CLASSES];      // real sizes ascending
  int64_t window_factor[SHOAL_MAX_RANK];  // by dim; 1: none
  int64_t window_common[SHOAL_MAX_RANK], window_least[SHOAL_MAX_RANK];
} maker_t;

// ---- classes -----------------------------------------------------------------------------------

static size_class_t *find_class(maker_t *m, int64_t size) {
  for (int32_t i = 0; i < m->count; ++i) {
    if (m->classes[i].real == size) return &m->classes[i];
  }
  return NULL;
}

static void add_class(maker_t *m, int64_t size) {
  if (size < 2 || m->count == MAX_CLASSES || find_class(m, size)) return;
  int32_t at = m->count++;
  for (; at > 0 && m->classes[at - 1].real > size; --at) m->classes[at] = m->classes[at - 1];
  m->classes[at] = (size_class_t){.real = size, .small = size, .followed = -1};
}

static bool is_size(const maker_t *m, int32_t attr) {
  return m->real->op->attrs[attr].role == SHOAL_ROLE_SIZE;
}

static bool in_placed(const maker_t *m, int64_t size) {
  for (int32_t i = 0; i < m->operand_count; ++i) {
    for (int32_t d = 0; m->has_place[i] && d < m->types[i].shape.rank; ++d) {
      if (m->types[i].shape.dims[d] == size) return true;
    }
  }
  return false;
}

// Kernels are inputs without a place, with sizes of their own; what they move over are the last
// dims.
static void find_slid_over(maker_t *m) {
  for (int32_t i = 0; i < m->operand_count; ++i) {
    const shoal_shape_t *shape = &m->types[i].shape;
    for (int32_t d = 0; d < shape->rank; ++d) {
      int64_t size = shape->dims[d];
      size_class_t *c = find_class(m, size);
      if (m->has_place[i] && d >= shape->rank - 2 && c) c->slid_over = true;
      bool kernel = !m->has_place[i] && !in_placed(m, size);
      if (kernel && c) c->kernel = true;
      if (kernel && size > m->largest_plain) m->largest_plain = size;
    }
  }
}

static void collect(maker_t *m) {
  const shoal_op_t *op = m->real->op;
  int32_t places = 0;
  int64_t largest = 0;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *schema = &op->attrs[i];
    int32_t operand = schema->operand < 0 ? m->real->input_count + SHOAL_OUTPUT(schema->operand)
                                          : schema->operand;
    if (schema->role != SHOAL_ROLE_PLACE || operand >= m->operand_count) continue;
    m->has_place[operand] = true;
    ++places;
  }
  for (int32_t i = 0; i < m->real->input_count; ++i) {
    for (int32_t d = 0; d < m->types[i].shape.rank; ++d) {
      add_class(m, m->types[i].shape.dims[d]);
      if (m->types[i].shape.dims[d] > largest) largest = m->types[i].shape.dims[d];
    }
  }
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_value_t *value = &m->real->attrs[i];
    bool many = op->attrs[i].kind == SHOAL_ATTR_INTS;
    if (op->attrs[i].kind != SHOAL_ATTR_INT && !many) continue;
    for (int32_t d = 0; d < (many ? value->count : 1); ++d) {
      int64_t number = many ? value->ints[d] : value->i;
      if (is_size(m, i)) add_class(m, number);
      bool plain =
          op->attrs[i].role == SHOAL_ROLE_PLAIN && number < largest;  // a key is no such number
      if (plain && number > m->largest_plain) m->largest_plain = number;
    }
  }
  m->slides = places >= 2;
  if (m->slides) find_slid_over(m);
}

// Do the two sizes lie along the same dim of two operands, counted from the front (or the end)?
// Where windows slide, only operands with a place count.
static bool in_same_place(const maker_t *m, int64_t a, int64_t b) {
  bool from_end = !m->slides;
  for (int32_t i = 0; i < m->operand_count; ++i) {
    const shoal_shape_t *x = &m->types[i].shape;
    for (int32_t d = 0; d < x->rank; ++d) {
      if (x->dims[d] != a || (m->slides && !m->has_place[i])) continue;
      for (int32_t k = 0; k < m->operand_count; ++k) {
        const shoal_shape_t *y = &m->types[k].shape;
        if (m->slides && !m->has_place[k]) continue;
        int32_t e = y->rank - x->rank + d;
        if (d < y->rank && y->dims[d] == b) return true;
        if (from_end && e >= 0 && e < y->rank && y->dims[e] == b) return true;
      }
    }
  }
  return false;
}

static void link(maker_t *m, int32_t index) {
  size_class_t *c = &m->classes[index];
  if (c->windowed || c->kernel) return;
  for (int32_t i = index - 1; i >= 0; --i) {
    int64_t other = m->classes[i].real, times = (c->real + other / 2) / other;
    int64_t plus = c->real - times * other;
    bool strided =
        plus == 0 ? times <= 32 : times <= 4 && llabs(plus) <= 8 && other >= 2 * llabs(plus);
    bool near =
        m->slides ? strided && c->slid_over && m->classes[i].slid_over : times <= 16 && plus == 0;
    if (!near || !in_same_place(m, c->real, other)) continue;
    c->followed = i;
    c->times = times;
    c->plus = plus;
    return;
  }
}

// ---- windows -----------------------------------------------------------------------------------

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Dims along which operands differ in length or positions are given: only those of ops that have
// windows.
static void find_windows(maker_t *m) {
  const shoal_op_t *op = m->real->op;
  bool has_windows = op->variadic;
  for (int32_t i = 0; i < op->attr_count; ++i)
    has_windows |= op->attrs[i].role == SHOAL_ROLE_POSITION;
  for (int32_t d = 0; d < SHOAL_MAX_RANK; ++d) {
    m->window_factor[d] = 1;
    int64_t common = 0, least = INT64_MAX, first = -1;
    bool windowed = false;
    for (int32_t i = 0; i < m->operand_count; ++i) {
      int64_t size = d < m->types[i].shape.rank ? m->types[i].shape.dims[d] : 0;
      if (size == 0) continue;
      windowed |= first >= 0 && size != first;
      first = size;
      common = gcd(common, size);
      if (size < least) least = size;
    }
    for (int32_t i = 0; i < op->attr_count; ++i) {
      const shoal_attr_value_t *value = &m->real->attrs[i];
      if (op->attrs[i].role != SHOAL_ROLE_POSITION) continue;
      if (op->attrs[i].kind == SHOAL_ATTR_INT)
        common = 1, windowed |= value->i != 0;
      else if (d < value->count)
        common = gcd(common, value->ints[d]), windowed |= value->ints[d] != 0;
    }
    if (!has_windows || !windowed) continue;
    m->window_common[d] = common;
    m->window_least[d] = least;
    for (int32_t i = 0; i < m->operand_count; ++i) {
      size_class_t *c =
          d < m->types[i].shape.rank ? find_class(m, m->types[i].shape.dims[d]) : NULL;
      if (c) c->windowed = true;
    }
  }
}

// ---- trying ------------------------------------------------------------------------------------

// Sizes of classes that follow others.
static void recompute(maker_t *m) {
  for (int32_t i = 0; i < m->count; ++i) {
    size_class_t *c = &m->classes[i];
    if (c->followed >= 0) c->small = c->times * m->classes[c->followed].small + c->plus;
  }
}

static int64_t small_size(maker_t *m, int32_t dim, int64_t size) {
  const size_class_t *c = find_class(m, size);
  if (c && !c->windowed) return c->small;
  return dim >= 0 && m->window_factor[dim] > 1 ? size / m->window_factor[dim] : size;
}

static void make_small(maker_t *m) {
  const shoal_op_t *op = m->real->op;
  for (int32_t i = 0; i < m->real->input_count; ++i) {
    m->small_types[i] = m->types[i];
    for (int32_t d = 0; d < m->types[i].shape.rank; ++d) {
      m->small_types[i].shape.dims[d] = small_size(m, d, m->types[i].shape.dims[d]);
    }
  }
  for (int32_t i = 0; i < op->attr_count; ++i) {
    shoal_attr_value_t *value = &m->small_attrs[i];
    *value = m->real->attrs[i];
    bool many = op->attrs[i].kind == SHOAL_ATTR_INTS;
    if (is_size(m, i) && !many) value->i = small_size(m, -1, value->i);
    for (int32_t d = 0; many && d < value->count; ++d) {
      if (is_size(m, i)) value->ints[d] = small_size(m, d, value->ints[d]);
      if (op->attrs[i].role == SHOAL_ROLE_POSITION) value->ints[d] /= m->window_factor[d];
    }
  }
}

// No two lengths that differ become equal, none that are equal differ, none becomes trivial or
// larger.
static bool keeps_apart(const maker_t *m) {
  for (int32_t i = 0; i < m->operand_count * SHOAL_MAX_RANK; ++i) {
    const shoal_shape_t *a = &m->types[i / SHOAL_MAX_RANK].shape;
    int32_t d = i % SHOAL_MAX_RANK;
    if (d >= a->rank) continue;
    int64_t x = a->dims[d], small_x = m->small_types[i / SHOAL_MAX_RANK].shape.dims[d];
    if (small_x > x || (small_x < 2) != (x < 2)) return false;
    for (int32_t k = 0; k < i; ++k) {
      const shoal_shape_t *b = &m->types[k / SHOAL_MAX_RANK].shape;
      int32_t e = k % SHOAL_MAX_RANK;
      if (e >= b->rank) continue;
      int64_t small_y = m->small_types[k / SHOAL_MAX_RANK].shape.dims[e];
      if ((x == b->dims[e]) != (small_x == small_y)) return false;
    }
  }
  return true;
}

// Is the call, with the classes as they are now, one that the op accepts and that is like the real
// one?
static shoal_status_t accepted(maker_t *m, bool *out_accepted) {
  *out_accepted = false;
  recompute(m);
  make_small(m);
  shoal_call_t call = *m->real;
  call.inputs = m->small_types;
  call.outputs = NULL;
  call.attrs = m->small_attrs;
  shoal_status_t status = shoal_op_infer(&call, m->small_types + call.input_count);
  if (status) {
    if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
    shoal_status_free(status);
    return NULL;
  }
  for (int32_t i = call.input_count; i < m->operand_count; ++i) {
    if (m->small_types[i].shape.rank != m->types[i].shape.rank) return NULL;
  }
  *out_accepted = keeps_apart(m);
  return NULL;
}

// Gives the class the smallest size that it may become.
static shoal_status_t shrink_class(maker_t *m, size_class_t *c) {
  int32_t followed = c->followed;
  if (c->windowed || c->kernel || (followed >= 0 && m->slides)) return NULL;
  c->followed = -1;
  int64_t least = c->slid_over && m->largest_plain + 2 > LEAST ? m->largest_plain + 2 : LEAST;
  if (c->slid_over && m->larger) least = least * 3 / 2 + 3;
  for (int32_t i = 0; i < SIZE_COUNT; ++i) {
    if (SIZES[i] < least || SIZES[i] >= c->real) continue;
    c->small = SIZES[i];
    bool good;
    SHOAL_RETURN_IF_ERROR(accepted(m, &good));
    if (good) return NULL;
  }
  c->small = c->real;
  c->followed = followed;
  return NULL;
}

static shoal_status_t shrink_windows(maker_t *m) {
  for (int32_t d = 0; d < SHOAL_MAX_RANK; ++d) {
    for (int64_t factor = m->window_common[d]; factor > 1; --factor) {
      if (m->window_common[d] % factor || m->window_least[d] / factor < LEAST) continue;
      m->window_factor[d] = factor;
      bool good;
      SHOAL_RETURN_IF_ERROR(accepted(m, &good));
      if (good) break;
      m->window_factor[d] = 1;
    }
  }
  return NULL;
}

// A reshape: one input, and an attribute that is the output's shape. Accepts it only if the op
// does.
static bool regroup(maker_t *m, regroup_t *out) {
  const shoal_op_t *op = m->real->op;
  int32_t sizes = -1;
  if (m->real->input_count != 1 || op->output_count != 1) return false;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    m->small_attrs[i] = m->real->attrs[i];
    if (op->attrs[i].role == SHOAL_ROLE_POSITION) return false;
    bool is_shape = is_size(m, i) && op->attrs[i].kind == SHOAL_ATTR_INTS;
    if (is_shape && op->attrs[i].operand == SHOAL_OUTPUT(0)) sizes = i;
  }
  shoal_type_t *in = &m->small_types[0], inferred;
  shoal_shape_t shape;
  *in = m->types[0];
  if (sizes < 0 || !regroup_make(&m->types[0].shape, &m->types[1].shape, out, &in->shape, &shape)) {
    out->count = 0;
    return false;
  }
  m->small_attrs[sizes].count = shape.rank;
  for (int32_t d = 0; d < shape.rank; ++d) m->small_attrs[sizes].ints[d] = shape.dims[d];
  shoal_call_t call = *m->real;
  call.inputs = in;
  call.outputs = NULL;
  call.attrs = m->small_attrs;
  shoal_status_t status = shoal_op_infer(&call, &inferred);
  bool good = !status && shoal_shape_equal(&inferred.shape, &shape);
  shoal_status_free(status);
  m->small_types[1] = inferred;
  if (!good) out->count = 0;
  return good;
}

static bool is_small(const shoal_call_t *call, const shoal_type_t *types, int32_t count) {
  int64_t elements = 0;
  for (int32_t i = 0; i < count; ++i) elements += shoal_shape_count(&types[i].shape);
  shoal_call_t whole = *call;
  whole.outputs = types + call->input_count;
  return elements <= SMALL_ELEMENTS && shoal_op_cost(&whole).flops <= SMALL_FLOPS;
}

shoal_status_t likeness_make(const shoal_call_t *call, bool force, bool larger,
                             shoal_arena_t *arena, likeness_t *out) {
  *out = (likeness_t){.operand_count = call->input_count + call->op->output_count};
  maker_t *m = SHOAL_NEW(arena, maker_t, 1);
  if (!m) return SHOAL_OOM();
  *m = (maker_t){.real = call, .operand_count = out->operand_count, .larger = larger};
  m->types = SHOAL_NEW(arena, shoal_type_t, m->operand_count);
  m->small_types = SHOAL_NEW(arena, shoal_type_t, m->operand_count);
  m->small_attrs = SHOAL_NEW(arena, shoal_attr_value_t, call->op->attr_count);
  m->has_place = SHOAL_NEW(arena, bool, m->operand_count);
  if (!m->has_place || !m->types || !m->small_types || !m->small_attrs) return SHOAL_OOM();
  for (int32_t i = 0; i < call->input_count; ++i) m->types[i] = call->inputs[i];
  shoal_call_t whole = *call;
  whole.outputs = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&whole, m->types + call->input_count));
  if (!force && is_small(call, m->types, m->operand_count)) return NULL;
  if (regroup(m, &out->regroup)) goto made;
  collect(m);
  find_windows(m);
  for (int32_t i = 0; i < m->count; ++i) link(m, i);
  // The smallest sizes go to those that kernels do not need to fit into.
  for (int32_t i = 2 * m->count - 1; i >= 0; --i) {
    size_class_t *c = &m->classes[i % m->count];
    if (c->slid_over == (i < m->count)) SHOAL_RETURN_IF_ERROR(shrink_class(m, c));
  }
  SHOAL_RETURN_IF_ERROR(shrink_windows(m));
  bool good;
  SHOAL_RETURN_IF_ERROR(accepted(m, &good));
  if (!good) return NULL;
made:
  for (int32_t i = 0; i < m->operand_count; ++i) {
    out->smaller |= !shoal_shape_equal(&m->types[i].shape, &m->small_types[i].shape);
  }
  out->call = *call;
  out->call.inputs = m->small_types;
  out->call.outputs = NULL;
  out->call.attrs = m->small_attrs;
  out->real = m->types;
  out->small = m->small_types;
  out->slides = m->slides;
  return NULL;
}

// ---- lifting -----------------------------------------------------------------------------------

static likeness_lifted_t lift_operand(const likeness_t *l, int32_t operand,
                                      const shoal_way_operand_t *small, shoal_way_operand_t *out) {
  *out = *small;
  if (small->kind != SHOAL_OPERAND_CUT) return LIKENESS_LIFTED;
  int64_t real_length = l->real[operand].shape.dims[small->dim];
  int64_t small_length = l->small[operand].shape.dims[small->dim];
  if (l->regroup.count) {
    uint32_t crossed = operand ? l->regroup.crossed_out : l->regroup.crossed_in;
    if (crossed >> small->dim & 1) return LIKENESS_DROPPED;
    out->scale = regroup_lift(&l->regroup, small->scale);
    out->repeat = regroup_lift(&l->regroup, small->repeat);
    return out->scale && out->repeat ? LIKENESS_LIFTED : LIKENESS_UNCLEAR;
  }
  if (small->length == 0) return LIKENESS_LIFTED;
  int64_t factor = real_length / small_length;
  out->offset = small->offset * factor;
  out->length = small->length * factor;
  return real_length == small_length * factor ? LIKENESS_LIFTED : LIKENESS_UNCLEAR;
}

// Items of the real call, as an operand shows them that is cut into them evenly; -1 if two
// disagree.
static int64_t real_items(const likeness_t *l, const shoal_way_operand_t *operands, bool plain) {
  int64_t items = 0;
  for (int32_t i = 0; i < l->operand_count; ++i) {
    const shoal_way_operand_t *o = &operands[i];
    int64_t each = o->scale * o->repeat;
    if (o->kind != SHOAL_OPERAND_CUT || o->dealt_by_items || o->length || (each == 1) != plain)
      continue;
    int64_t length = l->real[i].shape.dims[o->dim];
    if (length % each || (items && items != length / each)) return -1;
    items = length / each;
  }
  return items;
}

likeness_lifted_t likeness_lift(const likeness_t *l, const shoal_way_t *way,
                                shoal_way_operand_t *out_operands, int64_t *out_items) {
  for (int32_t i = 0; i < l->operand_count; ++i) {
    likeness_lifted_t lifted = lift_operand(l, i, &way->operands[i], &out_operands[i]);
    if (lifted != LIKENESS_LIFTED) return lifted;
  }
  int64_t items = way->items ? real_items(l, out_operands, true) : 0;
  if (way->items && !items) items = real_items(l, out_operands, false);
  if (items < 0 || (way->items && !items)) return LIKENESS_UNCLEAR;
  for (int32_t i = 0; i < l->operand_count; ++i) {
    shoal_way_operand_t *o = &out_operands[i];
    if (o->kind != SHOAL_OPERAND_CUT) continue;
    int64_t length = l->real[i].shape.dims[o->dim];
    bool even = length == (o->length ? o->length : items) * o->scale * o->repeat;
    // Strides need not come out even in both: what is dealt by items is decided by the real sizes.
    if (o->length || o->repeat > 1 || !l->slides) {
      if (!even) return LIKENESS_UNCLEAR;
    } else {
      o->dealt_by_items = !even;
      if (llabs(length - items * o->scale) > MAX_REST) return LIKENESS_UNCLEAR;
    }
  }
  *out_items = items;
  return LIKENESS_LIFTED;
}
