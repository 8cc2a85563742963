// einsum: sums of products of two operands, named by letters: "btc,cn->btn". One contraction
// (product.h): letters of all three terms are its batch, those of a and out its rows, those of b
// and out its columns, and the others are summed. More operands, dots and repeated letters:
// shoal_nn_einsum.
#include <stdio.h>

#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/product.h"

enum { A, B, C, OPERANDS };

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
  REQUIRE_HINT(call, equation_parse(text, &eq),
               "shoal_nn_einsum takes any number of operands, dots and repeated letters",
               "equation \"%s\" is not of the form \"ab,bc->ac\" with no letter twice in a term",
               text);
  for (int32_t o = A; o <= B; ++o) {
    REQUIRE(call, (int32_t)strlen(eq.terms[o]) == call->inputs[o].shape.rank,
            "equation \"%s\" gives %s the %d letters \"%s\" for %d dims", text, call->op->inputs[o],
            (int)strlen(eq.terms[o]), eq.terms[o], call->inputs[o].shape.rank);
  }
  for (const char *letter = eq.terms[B]; *letter; ++letter) {
    const int64_t size = letter_size(&eq, call->inputs, *letter);
    const int64_t mine = call->inputs[B].shape.dims[letter - eq.terms[B]];
    REQUIRE(call, mine == size, "letter '%c' of \"%s\" has two sizes: %lld in a and %lld in b",
            *letter, text, (long long)size, (long long)mine);
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

static shoal_contraction_t einsum_contraction(const shoal_call_t *call) {
  equation_t eq;
  shoal_contraction_t product = shoal_contraction_empty();
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
      shoal_group_t *group = !in[C]           ? &product.summed
                             : in[A] && in[B] ? &product.batch
                             : in[A]          ? &product.rows
                                              : &product.columns;
      shoal_contraction_add(group, letter_size(&eq, call->inputs, *letter), stride[A], stride[B],
                            stride[C]);
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
  const shoal_contraction_t c = einsum_contraction(call);
  shoal_contraction_cost(&c, out_cost);
}

static int64_t einsum_workspace(const shoal_call_t *call) {
  const shoal_contraction_t c = einsum_contraction(call);
  return shoal_contraction_workspace(&c, call->outputs[0].dtype) + shoal_kernel_widen_bytes(call);
}

static shoal_status_t einsum_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                    const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, einsum_kernel);
  }
  const shoal_contraction_t c = einsum_contraction(call);
  shoal_contraction_run(&c, inputs, outputs, workspace);
  return NULL;
}

const shoal_op_t shoal_op_einsum = {
    .name = "shoal.einsum",
    .doc =
        "Einstein sum of two operands of floats, \"btc,cn->btn\": letters that the result lacks "
        "are summed over. No letter occurs twice in one term, and none is in the result alone. "
        "Half-size floats are multiplied and summed in f32.",
    SHOAL_OP_INPUTS("a", "b"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "equation",
                    .kind = SHOAL_ATTR_STRING,
                    .doc = "the letters of a, b and out: one for each dim"}),
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
