// Products of two operands: matmul and einsum. Both become one *contraction*: dims are sorted into
// batch (in a, b and out), rows (a, out), columns (b, out) and summed (not in out), each with its
// strides, and run by one blocked kernel that packs both operands first - so that transposes cost
// nothing extra.
//
// Letters: C[m,n] = sum over k of A[m,k] B[k,n]. Half-size floats are multiplied and summed in f32.
#ifndef KERNELS_HERE
#include <stdio.h>

#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/product.h"

enum { A, B, C, OPERANDS };
#define MAX_LETTERS (2 * SHOAL_MAX_RANK)

typedef struct group {
  int32_t count;
  int64_t size[MAX_LETTERS], stride[OPERANDS][MAX_LETTERS];
  int64_t total;
} group_t;

typedef struct contraction {
  group_t batch, rows, columns, summed;
} contraction_t;

static void group_add(group_t *group, int64_t size, int64_t a, int64_t b, int64_t c) {
  const int32_t i = group->count++;
  group->size[i] = size;
  group->stride[A][i] = a;
  group->stride[B][i] = b;
  group->stride[C][i] = c;
  group->total *= size;
}

static contraction_t contraction_empty(void) {
  const group_t empty = {.total = 1};
  return (contraction_t){empty, empty, empty, empty};
}

// Offsets in one operand of all index combinations of a group, row-major.
static void group_offsets(const group_t *group, int32_t operand, int64_t *out_offsets) {
  int64_t index[MAX_LETTERS] = {0}, offset = 0;
  for (int64_t i = 0; i < group->total; ++i) {
    out_offsets[i] = offset;
    for (int32_t d = group->count - 1; d >= 0; --d) {
      offset += group->stride[operand][d];
      if (++index[d] < group->size[d]) break;
      offset -= group->size[d] * group->stride[operand][d];
      index[d] = 0;
    }
  }
}

// Blocks: a packed block of B (BLOCK_K x BLOCK_N) stays in the second cache, one of A in the first.
enum { BLOCK_M = 64, BLOCK_N = 512, BLOCK_K = 256, TILE_M = 4 };

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

static int64_t offsets_bytes(const contraction_t *c) {
  const int64_t entries =
      2 * (c->rows.total + c->columns.total + c->summed.total) + 3 * c->batch.total;
  return shoal_align64(entries * (int64_t)sizeof(int64_t));
}

// Tables of offsets, then packed blocks of B and of A; 8 columns are the widest tile.
static int64_t contraction_workspace(const contraction_t *c, shoal_dtype_t dtype) {
  const int64_t element = (int64_t)shoal_dtype_size(shoal_statistics_dtype(dtype));
  const int64_t k = least(c->summed.total, BLOCK_K);
  const int64_t b = k * round_up(least(c->columns.total, BLOCK_N), 8);
  const int64_t a = k * round_up(least(c->rows.total, BLOCK_M), TILE_M);
  return offsets_bytes(c) + shoal_align64(b * element) + shoal_align64(a * element);
}

#define EACH EACH_REAL
#define KERNELS "op/families/product.c"
#include "op/families/each.h"

static void contraction_run(const contraction_t *c, const shoal_tensor_t *inputs,
                            const shoal_tensor_t *outputs, void *workspace) {
  const int64_t count = shoal_shape_count(&outputs->shape);
  if (count == 0) return;
  if (c->summed.total == 0) {
    memset(outputs->data, 0, (size_t)count * shoal_dtype_size(outputs->dtype));
  } else if (outputs->dtype == SHOAL_F64) {
    contract_f64(c, inputs[0].data, inputs[1].data, outputs->data, workspace, false);
  } else {
    contract_f32(c, inputs[0].data, inputs[1].data, outputs->data, workspace, false);
  }
}

static void contraction_cost(const contraction_t *c, shoal_cost_t *out_cost) {
  out_cost->flops = 2.0 * (double)c->batch.total * (double)c->rows.total *
                    (double)c->columns.total * (double)c->summed.total;
}

static contraction_t product_contraction(const shoal_product_t *p) {
  contraction_t c = contraction_empty();
  group_add(&c.rows, p->m, p->a[0], 0, p->c[0]);
  group_add(&c.columns, p->n, 0, p->b[1], p->c[1]);
  group_add(&c.summed, p->k, p->a[1], p->b[0], 0);
  return c;
}

void shoal_product_run(const shoal_product_t *product, shoal_dtype_t dtype, const void *a,
                       const void *b, void *c, void *workspace) {
  const contraction_t contraction = product_contraction(product);
  if (dtype == SHOAL_F64) {
    contract_f64(&contraction, a, b, c, workspace, true);
  } else {
    contract_f32(&contraction, a, b, c, workspace, true);
  }
}

int64_t shoal_product_workspace(const shoal_product_t *product, shoal_dtype_t dtype) {
  const contraction_t contraction = product_contraction(product);
  return contraction_workspace(&contraction, dtype);
}

// ---- matmul ----------------------------------------------------------------------------

enum { TRANSPOSE_A, TRANSPOSE_B };

// The batch dims of an operand: all but its last two.
static shoal_shape_t batch_of(const shoal_shape_t *shape) {
  return shoal_shape_part(shape, 0, shape->rank - 2);
}

static shoal_status_t matmul_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  const shoal_shape_t *a = &call->inputs[0].shape, *b = &call->inputs[1].shape;
  REQUIRE(call, a->rank >= 2 && b->rank >= 2, "a and b must have at least 2 dims");
  const bool ta = call->attrs[TRANSPOSE_A].i, tb = call->attrs[TRANSPOSE_B].i;
  const shoal_shape_t batch_a = batch_of(a), batch_b = batch_of(b);
  shoal_shape_t shape;
  REQUIRE(call, shoal_shape_broadcast(&batch_a, &batch_b, &shape),
          "the batch dims do not fit: from the right, sizes must be equal or one of them 1");
  const int64_t k = a->dims[a->rank - (ta ? 2 : 1)], other = b->dims[b->rank - (tb ? 1 : 2)];
  REQUIRE(call, k == other, "the summed sizes differ: %lld and %lld", (long long)k,
          (long long)other);
  shape.dims[shape.rank++] = a->dims[a->rank - (ta ? 1 : 2)];
  shape.dims[shape.rank++] = b->dims[b->rank - (tb ? 2 : 1)];
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, shape};
  return NULL;
}

// A batch dim that one operand is broadcast along belongs to the rows or columns of the other.
static contraction_t matmul_contraction(const shoal_call_t *call) {
  const shoal_shape_t *a = &call->inputs[0].shape, *b = &call->inputs[1].shape;
  const shoal_shape_t *c = &call->outputs[0].shape;
  const bool ta = call->attrs[TRANSPOSE_A].i, tb = call->attrs[TRANSPOSE_B].i;
  const int32_t row = a->rank - (ta ? 1 : 2), column = b->rank - (tb ? 2 : 1);
  const int32_t sum_a = a->rank - (ta ? 2 : 1), sum_b = b->rank - (tb ? 1 : 2);
  int64_t sa[SHOAL_MAX_RANK], sb[SHOAL_MAX_RANK], sc[SHOAL_MAX_RANK];
  shoal_strides(a, sa);
  shoal_strides(b, sb);
  shoal_strides(c, sc);
  contraction_t product = contraction_empty();
  for (int32_t d = 0; d < c->rank - 2; ++d) {
    const int32_t da = d + a->rank - c->rank, db = d + b->rank - c->rank;
    const bool in_a = da >= 0 && a->dims[da] == c->dims[d];
    const bool in_b = db >= 0 && b->dims[db] == c->dims[d];
    group_t *group = in_a && in_b ? &product.batch : in_a ? &product.rows : &product.columns;
    group_add(group, c->dims[d], in_a ? sa[da] : 0, in_b ? sb[db] : 0, sc[d]);
  }
  group_add(&product.rows, a->dims[row], sa[row], 0, sc[c->rank - 2]);
  group_add(&product.columns, b->dims[column], 0, sb[column], sc[c->rank - 1]);
  group_add(&product.summed, a->dims[sum_a], sa[sum_a], sb[sum_b], 0);
  return product;
}

static shoal_ref_t emit_matmul(shoal_emitter_t *e, shoal_ref_t a, bool ta, shoal_ref_t b, bool tb) {
  return shoal_emit_one(
      e, "shoal.matmul", REFS(a, b),
      ATTRS(shoal_attr_int("transpose_a", ta), shoal_attr_int("transpose_b", tb)));
}

// Operand `o` without the batch dims that it is broadcast along, and the letters of what is left:
// capitals for batch dims, m, n and k for the last two.
static shoal_ref_t matmul_term(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t ref,
                               int32_t o, char *out_letters) {
  const shoal_shape_t *shape = &call->inputs[o].shape, *out = &call->outputs[0].shape;
  static const char *const ends[2][2] = {{"mk", "km"}, {"kn", "nk"}};
  shoal_shape_t kept = {0};
  for (int32_t d = 0; d < shape->rank - 2; ++d) {
    const int32_t in_out = d + out->rank - shape->rank;
    if (shape->dims[d] != out->dims[in_out]) continue;
    out_letters[kept.rank] = (char)('A' + in_out);
    kept.dims[kept.rank++] = shape->dims[d];
  }
  const bool turned = call->attrs[o == A ? TRANSPOSE_A : TRANSPOSE_B].i;
  memcpy(out_letters + kept.rank, ends[o][turned], 3);
  kept.dims[kept.rank++] = shape->dims[shape->rank - 2];
  kept.dims[kept.rank++] = shape->dims[shape->rank - 1];
  return shoal_emit_reshape(e, ref, &kept);
}

// Where an operand was broadcast its gradient is summed over those dims, as part of the product.
static void matmul_broadcast_gradient(const shoal_call_t *call, shoal_emitter_t *e,
                                      const shoal_ref_t *in, shoal_ref_t dy,
                                      shoal_ref_t *in_grads) {
  const int32_t rank = call->outputs[0].shape.rank;
  char terms[2][SHOAL_MAX_RANK + 1], out[SHOAL_MAX_RANK + 1] = "ABCDEF";
  char text[4 * SHOAL_MAX_RANK];
  shoal_ref_t squeezed[2];
  for (int32_t o = A; o <= B; ++o) squeezed[o] = matmul_term(call, e, in[o], o, terms[o]);
  memcpy(out + rank - 2, "mn", 3);
  for (int32_t o = A; o <= B; ++o) {
    snprintf(text, sizeof text, "%s,%s->%s", out, terms[1 - o], terms[o]);
    in_grads[o] = shoal_emit_reshape(e, shoal_emit_einsum(e, text, dy, squeezed[1 - o]),
                                     &call->inputs[o].shape);
  }
}

static void matmul_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                            const shoal_ref_t *out, const shoal_ref_t *grads,
                            shoal_ref_t *in_grads) {
  const bool ta = call->attrs[TRANSPOSE_A].i, tb = call->attrs[TRANSPOSE_B].i;
  const shoal_shape_t a = batch_of(&call->inputs[A].shape), b = batch_of(&call->inputs[B].shape);
  (void)out;
  if (!shoal_shape_equal(&a, &b)) {
    matmul_broadcast_gradient(call, e, in, grads[0], in_grads);
    return;
  }
  in_grads[0] =
      ta ? emit_matmul(e, in[1], tb, grads[0], true) : emit_matmul(e, grads[0], false, in[1], !tb);
  in_grads[1] =
      tb ? emit_matmul(e, grads[0], true, in[0], ta) : emit_matmul(e, in[0], !ta, grads[0], false);
}

static void matmul_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const contraction_t c = matmul_contraction(call);
  contraction_cost(&c, out_cost);
}

static int64_t matmul_workspace(const shoal_call_t *call) {
  const contraction_t c = matmul_contraction(call);
  return contraction_workspace(&c, call->outputs[0].dtype) + shoal_kernel_widen_bytes(call);
}

static shoal_status_t matmul_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                    const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, matmul_kernel);
  }
  const contraction_t c = matmul_contraction(call);
  contraction_run(&c, inputs, outputs, workspace);
  return NULL;
}

const shoal_op_t shoal_op_matmul = {
    .name = "shoal.matmul",
    .doc =
        "out[.., m, n] = sum over k of a[.., m, k] b[.., k, n]; the leading dims are broadcast "
        "as numpy does.",
    SHOAL_OP_INPUTS("a", "b"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "transpose_a",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: a is [.., k, m]"},
                   {.name = "transpose_b",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: b is [.., n, k]"}),
    .infer = matmul_infer,
    .gradient = matmul_gradient,
    .cost = matmul_cost,
    .workspace = matmul_workspace,
    .kernel = matmul_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[5,7]", "f32[5,3], f32[5,7] ; transpose_a=1",
                   "f64[2,3,5], f64[2,7,5] ; transpose_b=1",
                   "f64[5,3], f64[7,5] ; transpose_a=1, transpose_b=1",
                   "f32[2,3,4,5], f32[2,3,5,1]", "bf16[3,5], bf16[5,9]", "f64[3,0], f64[0,2]",
                   "f64[2,3,5], f64[5,4]", "f64[3,5], f64[2,1,4,5] ; transpose_b=1",
                   "f64[2,1,5,3], f64[4,5,2] ; transpose_a=1"),
};

// ---- einsum ----------------------------------------------------------------------------

typedef struct equation {
  char terms[OPERANDS][SHOAL_MAX_RANK + 1];
} equation_t;

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// "ab,bc->ac"; false when it is not of that form.
static bool equation_parse(const char *text, equation_t *out) {
  static const char *const ends[OPERANDS] = {",", "->", ""};
  *out = (equation_t){0};
  for (int32_t o = 0; o < OPERANDS; ++o) {
    int32_t length = 0;
    for (; is_letter(*text); ++text) {
      if (length == SHOAL_MAX_RANK || strchr(out->terms[o], *text)) return false;
      out->terms[o][length++] = *text;
    }
    const size_t end = strlen(ends[o]);
    if (strncmp(text, ends[o], end) != 0) return false;
    text += end;
  }
  return *text == 0;
}

// Position of a letter in a term, or -1.
static int32_t position(const char *term, char letter) {
  const char *at = strchr(term, letter);
  return at ? (int32_t)(at - term) : -1;
}

// Size of a letter, from whichever operand has it; -1 if none does.
static int64_t letter_size(const equation_t *eq, const shoal_type_t *inputs, char letter) {
  for (int32_t o = A; o <= B; ++o) {
    const int32_t d = position(eq->terms[o], letter);
    if (d >= 0) return inputs[o].shape.dims[d];
  }
  return -1;
}

static shoal_status_t einsum_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  const char *text = call->attrs[0].s;
  equation_t eq;
  REQUIRE(call, equation_parse(text, &eq),
          "equation \"%s\" is not of the form \"ab,bc->ac\" with no letter twice in a term", text);
  for (int32_t o = A; o <= B; ++o) {
    REQUIRE(call, (int32_t)strlen(eq.terms[o]) == call->inputs[o].shape.rank,
            "equation \"%s\" gives %s %d letters for %d dims", text, call->op->inputs[o],
            (int)strlen(eq.terms[o]), call->inputs[o].shape.rank);
  }
  for (const char *letter = eq.terms[B]; *letter; ++letter) {
    const int64_t size = letter_size(&eq, call->inputs, *letter);
    REQUIRE(call, call->inputs[B].shape.dims[letter - eq.terms[B]] == size,
            "letter '%c' of \"%s\" has two sizes", *letter, text);
  }
  shoal_shape_t shape = {.rank = (int32_t)strlen(eq.terms[C])};
  for (int32_t d = 0; d < shape.rank; ++d) {
    shape.dims[d] = letter_size(&eq, call->inputs, eq.terms[C][d]);
    REQUIRE(call, shape.dims[d] >= 0, "letter '%c' of \"%s\" is in neither operand", eq.terms[C][d],
            text);
  }
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, shape};
  return NULL;
}

static contraction_t einsum_contraction(const shoal_call_t *call) {
  equation_t eq;
  contraction_t product = contraction_empty();
  if (!equation_parse(call->attrs[0].s, &eq)) return product;  // infer has refused it
  int64_t strides[OPERANDS][SHOAL_MAX_RANK];
  shoal_strides(&call->inputs[0].shape, strides[A]);
  shoal_strides(&call->inputs[1].shape, strides[B]);
  shoal_strides(&call->outputs[0].shape, strides[C]);
  for (int32_t o = C; o >= A; --o) {  // letters of out, then those that only the operands have
    for (const char *letter = eq.terms[o]; *letter; ++letter) {
      int64_t stride[OPERANDS] = {0};
      bool seen = false, in[OPERANDS];
      for (int32_t p = A; p <= C; ++p) {
        const int32_t d = position(eq.terms[p], *letter);
        in[p] = d >= 0;
        if (in[p]) stride[p] = strides[p][d];
        if (in[p] && p > o) seen = true;
      }
      if (seen) continue;
      group_t *group = !in[C]           ? &product.summed
                       : in[A] && in[B] ? &product.batch
                       : in[A]          ? &product.rows
                                        : &product.columns;
      group_add(group, letter_size(&eq, call->inputs, *letter), stride[A], stride[B], stride[C]);
    }
  }
  return product;
}

// Gradient of operand `o`: contracts dy with the other one. Letters that only this operand has were
// summed: their gradient is repeated, by a product with ones.
static shoal_ref_t einsum_operand_gradient(const shoal_call_t *call, shoal_emitter_t *e,
                                           const equation_t *eq, int32_t o, shoal_ref_t other,
                                           shoal_ref_t dy) {
  const char *mine = eq->terms[o], *theirs = eq->terms[o == A ? B : A];
  char shared[SHOAL_MAX_RANK + 1] = "", alone[SHOAL_MAX_RANK + 1] = "";
  char text[4 * SHOAL_MAX_RANK];
  shoal_shape_t ones = {0};
  for (int32_t d = 0; mine[d]; ++d) {
    if (position(theirs, mine[d]) >= 0 || position(eq->terms[C], mine[d]) >= 0) {
      shared[strlen(shared)] = mine[d];
    } else {
      alone[ones.rank] = mine[d];
      ones.dims[ones.rank++] = call->inputs[o].shape.dims[d];
    }
  }
  snprintf(text, sizeof text, "%s,%s->%s", eq->terms[C], theirs, shared);
  const shoal_ref_t grad = shoal_emit_einsum(e, text, dy, other);
  if (!ones.rank) return grad;
  snprintf(text, sizeof text, "%s,%s->%s", shared, alone, mine);
  const shoal_ref_t repeat =
      shoal_emit_one(e, "shoal.full", NO_REFS,
                     ATTRS(shoal_attr_shape("shape", &ones), shoal_attr_real("value", 1),
                           shoal_attr_dtype("dtype", call->inputs[o].dtype)));
  return shoal_emit_einsum(e, text, grad, repeat);
}

static void einsum_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                            const shoal_ref_t *out, const shoal_ref_t *grads,
                            shoal_ref_t *in_grads) {
  equation_t eq;
  (void)out;
  if (!equation_parse(call->attrs[0].s, &eq)) return;
  in_grads[A] = einsum_operand_gradient(call, e, &eq, A, in[B], grads[0]);
  in_grads[B] = einsum_operand_gradient(call, e, &eq, B, in[A], grads[0]);
}

static void einsum_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const contraction_t c = einsum_contraction(call);
  contraction_cost(&c, out_cost);
}

static int64_t einsum_workspace(const shoal_call_t *call) {
  const contraction_t c = einsum_contraction(call);
  return contraction_workspace(&c, call->outputs[0].dtype) + shoal_kernel_widen_bytes(call);
}

static shoal_status_t einsum_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                    const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, einsum_kernel);
  }
  const contraction_t c = einsum_contraction(call);
  contraction_run(&c, inputs, outputs, workspace);
  return NULL;
}

const shoal_op_t shoal_op_einsum = {
    .name = "shoal.einsum",
    .doc =
        "Einstein sum of two operands, \"btc,cn->btn\": letters that the result lacks are summed "
        "over. "
        "No letter occurs twice in one term.",
    SHOAL_OP_INPUTS("a", "b"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "equation", .kind = SHOAL_ATTR_STRING, .doc = "terms of a, b and out"}),
    .infer = einsum_infer,
    .gradient = einsum_gradient,
    .cost = einsum_cost,
    .workspace = einsum_workspace,
    .kernel = einsum_kernel,
    SHOAL_OP_CASES("f64[2,3,5], f64[5,7] ; equation=\"btc,cn->btn\"",
                   "f32[2,3,5], f32[2,3,7] ; equation=\"btc,btn->cn\"",
                   "f64[2,5,3,7], f64[2,6,3,7] ; equation=\"bthd,bshd->bhts\"",
                   "f64[3,5], f64[4] ; equation=\"ab,c->cb\"",
                   "f64[2,3], f64[2,5] ; equation=\"ax,ay->\"",
                   "bf16[2,3,5], bf16[7,5] ; equation=\"btc,nc->btn\"",
                   "f32[3,0], f32[0] ; equation=\"ab,b->a\""),
};

#else  // per element type

typedef R K(vector) __attribute__((vector_size(16), may_alias));
#define LANES ((int64_t)(16 / sizeof(R)))
#define TILE_N (2 * LANES)

// acc[4][TILE_N] = sum over k of the packed panels a[k][4] and b[k][TILE_N].
static void K(tile)(int64_t kc, const R *restrict a, const R *restrict b, R *restrict acc) {
  K(vector) c[TILE_M][2] = {{{0}}};
  for (int64_t k = 0; k < kc; ++k, a += TILE_M, b += TILE_N) {
    const K(vector) b0 = *(const K(vector) *)b, b1 = *(const K(vector) *)(b + LANES);
#pragma GCC unroll 4
    for (int i = 0; i < TILE_M; ++i) {
      c[i][0] += a[i] * b0;
      c[i][1] += a[i] * b1;
    }
  }
  memcpy(acc, c, sizeof c);
}

// panels[p][k][width]: elements at first[..] + second[..], zero beyond the end.
static void K(pack)(const R *restrict from, const int64_t *first, int64_t count,
                    const int64_t *second, int64_t kc, int64_t width, R *restrict panels) {
  for (int64_t p = 0; p < count; p += width, panels += kc * width) {
    const int64_t n = least(width, count - p);
    for (int64_t k = 0; k < kc; ++k) {
      const R *row = from + second[k];
      R *to = panels + k * width;
      for (int64_t i = 0; i < n; ++i) to[i] = row[first[p + i]];
      for (int64_t i = n; i < width; ++i) to[i] = 0;
    }
  }
}

// One product: rows x columns of one batch entry, added to what is there if asked for.
static void K(contract_one)(int64_t m, int64_t n, int64_t k, const R *a, const R *b, R *out,
                            int64_t *const offsets[6], R *packed_b, R *packed_a, bool add) {
  const int64_t *a_m = offsets[0], *c_m = offsets[1], *b_n = offsets[2], *c_n = offsets[3];
  R acc[TILE_M * 8] __attribute__((aligned(16)));
  for (int64_t k0 = 0; k0 < k; k0 += BLOCK_K) {
    const int64_t kc = least(BLOCK_K, k - k0);
    for (int64_t n0 = 0; n0 < n; n0 += BLOCK_N) {
      const int64_t nc = least(BLOCK_N, n - n0);
      K(pack)(b, b_n + n0, nc, offsets[5] + k0, kc, TILE_N, packed_b);
      for (int64_t m0 = 0; m0 < m; m0 += BLOCK_M) {
        const int64_t mc = least(BLOCK_M, m - m0);
        K(pack)(a, a_m + m0, mc, offsets[4] + k0, kc, TILE_M, packed_a);
        for (int64_t j = 0; j < nc; j += TILE_N) {
          for (int64_t i = 0; i < mc; i += TILE_M) {
            K(tile)(kc, packed_a + i * kc, packed_b + j * kc, acc);
            for (int64_t r = 0; r < least(TILE_M, mc - i); ++r) {
              R *row = out + c_m[m0 + i + r];
              const int64_t *at = c_n + n0 + j;
              const R *sum = acc + r * TILE_N;
              const int64_t width = least(TILE_N, nc - j);
              if (k0 == 0 && !add) {
                for (int64_t s = 0; s < width; ++s) row[at[s]] = sum[s];
              } else {
                for (int64_t s = 0; s < width; ++s) row[at[s]] += sum[s];
              }
            }
          }
        }
      }
    }
  }
}

static void K(contract)(const contraction_t *c, const R *a, const R *b, R *out, void *workspace,
                        bool add) {
  const int64_t m = c->rows.total, n = c->columns.total, k = c->summed.total;
  const int64_t sizes[] = {m, m, n, n, k, k};
  int64_t *offsets[6], *at = workspace;
  for (int32_t i = 0; i < 6; ++i) {
    offsets[i] = at;
    at += sizes[i];
  }
  group_offsets(&c->rows, A, offsets[0]);
  group_offsets(&c->rows, C, offsets[1]);
  group_offsets(&c->columns, B, offsets[2]);
  group_offsets(&c->columns, C, offsets[3]);
  group_offsets(&c->summed, A, offsets[4]);
  group_offsets(&c->summed, B, offsets[5]);
  const int64_t batches = c->batch.total;
  int64_t *batch_a = at, *batch_b = at + batches, *batch_c = at + 2 * batches;
  group_offsets(&c->batch, A, batch_a);
  group_offsets(&c->batch, B, batch_b);
  group_offsets(&c->batch, C, batch_c);
  char *packed = (char *)workspace + offsets_bytes(c);
  const int64_t b_size = least(k, BLOCK_K) * round_up(least(n, BLOCK_N), 8);
  R *packed_b = (R *)packed;
  R *packed_a = (R *)(packed + shoal_align64(b_size * (int64_t)sizeof(R)));
  for (int64_t i = 0; i < batches; ++i) {
    K(contract_one)
    (m, n, k, a + batch_a[i], b + batch_b[i], out + batch_c[i], offsets, packed_b, packed_a, add);
  }
}

#undef LANES
#undef TILE_N
#endif
