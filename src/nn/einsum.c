// Einstein sums of any number of operands, as numpy and PyTorch write them, by ops: diagonals of
// letters that occur twice in a term, shoal.einsum of two operands at a time from left to right,
// and, for a single operand, a sum and a transpose.
//
// First every term gets plain letters: an ellipsis becomes letters that the equation does not use,
// counted from the right. An operand of size 1 along a letter that is larger elsewhere is repeated,
// which a product does by itself once the operand lacks the letter.
#include <ctype.h>
#include <string.h>

#include "base/locale.h"
#include "graph/builder.h"
#include "nn/build.h"

enum { MAX_OPERANDS = 32, LETTERS = 52 };
#define ALPHABET "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

typedef struct term {
  shoal_value_t value;
  char letters[SHOAL_MAX_RANK + 1];
} term_t;

typedef struct sum {
  shoal_graph_t *graph;
  const char *equation;
  char text[LETTERS + 1], free[LETTERS + 1];  // letters of the equation, and others
  int32_t count, ellipsis;                    // operands; dims of the longest ellipsis
  term_t terms[MAX_OPERANDS];
  int64_t sizes[128];  // by letter; 0: no operand has it
  char out[SHOAL_MAX_RANK + 1];
} sum_t;

static bool refuse(const sum_t *s, const char *why) {
  shoal_nn_refuse(s->graph, "einsum \"%.120s\": %s", s->equation, why);
  return false;
}

// ---- the equation -------------------------------------------------------------------------------

static bool append(const sum_t *s, char *letters, char letter) {
  const size_t length = strlen(letters);
  if (length == SHOAL_MAX_RANK) return refuse(s, "a term has more than 8 dims");
  letters[length] = letter;
  letters[length + 1] = 0;
  return true;
}

// The letters of a term up to a comma or arrow, an ellipsis of `dims` dims among them; *at moves
// there. Without letters to write to, only counts: letters, and whether there is an ellipsis.
static bool read_term(const sum_t *s, const char **at, int32_t dims, char *out_letters,
                      int32_t *out_count, bool *out_ellipsis) {
  *out_count = 0;
  *out_ellipsis = false;
  if (out_letters) out_letters[0] = 0;
  for (; **at && **at != ',' && **at != '-'; ++*at) {
    if (isspace((unsigned char)**at)) continue;
    if (strncmp(*at, "...", 3) == 0) {
      if (*out_ellipsis) return refuse(s, "a term has two ellipses");
      *out_ellipsis = true;
      for (int32_t d = dims; out_letters && d > 0; --d) {
        if (!append(s, out_letters, s->free[d - 1])) return false;
      }
      *at += 2;
      continue;
    }
    if (!strchr(ALPHABET, **at)) return refuse(s, "it has letters, commas, ... and -> alone");
    if (out_letters && !append(s, out_letters, **at)) return false;
    ++*out_count;
  }
  return true;
}

static void find_free_letters(sum_t *s) {
  size_t used = 0, unused = 0;
  for (const char *letter = ALPHABET; *letter; ++letter) {
    if (strchr(s->equation, *letter)) {
      s->text[used++] = *letter;
    } else {
      s->free[unused++] = *letter;
    }
  }
}

// Letters of the operands; *out_at is where the result's begin, NULL if the equation has none.
static bool read_operands(sum_t *s, const char **out_at) {
  const char *at = s->equation;
  for (int32_t t = 0; t < s->count; ++t) {
    const int32_t rank = shoal_value_type(s->terms[t].value).shape.rank;
    const char *begin = at;
    int32_t letters;
    bool ellipsis;
    if (!read_term(s, &at, 0, NULL, &letters, &ellipsis)) return false;
    const int32_t dims = rank - letters;
    if (dims < 0 || (dims > 0 && !ellipsis)) {
      char why[96];
      shoal_format(why, sizeof why, "operand %d has %d dims, and its term %d letters", t, rank,
                   letters);
      return refuse(s, why);
    }
    if (dims > s->ellipsis) s->ellipsis = dims;
    at = begin;
    if (!read_term(s, &at, dims, s->terms[t].letters, &letters, &ellipsis)) return false;
    const bool last = t + 1 == s->count;
    if (!last && *at != ',') return refuse(s, "there are more operands than terms");
    if (last && *at == ',') return refuse(s, "there are more terms than operands");
    if (!last) ++at;
  }
  if (*at && strncmp(at, "->", 2) != 0) return refuse(s, "'-' without '>'");
  *out_at = *at ? at + 2 : NULL;
  return true;
}

static int32_t occurrences(const sum_t *s, char letter) {
  int32_t count = 0;
  for (int32_t t = 0; t < s->count; ++t) {
    for (const char *at = s->terms[t].letters; *at; ++at) count += *at == letter;
  }
  return count;
}

// The result: as written, or the ellipsis and then the letters that occur once, in order.
static bool read_result(sum_t *s, const char *at) {
  int32_t letters;
  bool ellipsis;
  if (at) {
    if (!read_term(s, &at, s->ellipsis, s->out, &letters, &ellipsis)) return false;
    if (*at) return refuse(s, "there is something behind the result");
    for (const char *letter = s->out; *letter; ++letter) {
      if (s->sizes[(int)*letter] < 0) return refuse(s, "the result has a letter of no operand");
      if (strchr(letter + 1, *letter)) return refuse(s, "the result has a letter twice");
    }
    return true;
  }
  for (int32_t d = s->ellipsis; d > 0; --d) {
    if (!append(s, s->out, s->free[d - 1])) return false;
  }
  for (const char *letter = s->text; *letter; ++letter) {
    if (occurrences(s, *letter) == 1 && !append(s, s->out, *letter)) return false;
  }
  return true;
}

static bool find_sizes(sum_t *s) {
  for (size_t i = 0; i < sizeof s->sizes / sizeof *s->sizes; ++i) s->sizes[i] = -1;
  for (int32_t t = 0; t < s->count; ++t) {
    const shoal_shape_t shape = shoal_value_type(s->terms[t].value).shape;
    for (int32_t d = 0; s->terms[t].letters[d]; ++d) {
      int64_t *size = &s->sizes[(int)s->terms[t].letters[d]];
      if (*size >= 0 && *size != 1 && shape.dims[d] != 1 && *size != shape.dims[d]) {
        char why[96];
        shoal_format(why, sizeof why, "the letter '%c' has two sizes, %lld and %lld",
                     s->terms[t].letters[d], (long long)*size, (long long)shape.dims[d]);
        return refuse(s, why);
      }
      if (*size < 0 || *size == 1) *size = shape.dims[d];
    }
  }
  return true;
}

// ---- one operand --------------------------------------------------------------------------------

static shoal_value_t apply(shoal_graph_t *graph, const char *op, shoal_value_t x,
                           int32_t attr_count, const shoal_attr_t *attrs) {
  shoal_value_t out = {0};
  shoal_node_add(graph, op, 1, &x, attr_count, attrs, 1, &out);
  return out;
}

static void drop(char *letters, int32_t at) {
  memmove(letters + at, letters + at + 1, strlen(letters + at));
}

// Without dims along which the operand is repeated.
static void squeeze(sum_t *s, term_t *term) {
  shoal_shape_t shape = shoal_value_type(term->value).shape;
  const int32_t rank = shape.rank;
  for (int32_t d = rank - 1; d >= 0; --d) {
    if (shape.dims[d] != 1 || s->sizes[(int)term->letters[d]] == 1) continue;
    for (int32_t k = d; k + 1 < shape.rank; ++k) shape.dims[k] = shape.dims[k + 1];
    shape.rank--;
    drop(term->letters, d);
  }
  if (shape.rank < rank) term->value = shoal_reshape(s->graph, term->value, shape);
}

// Diagonals of letters that occur twice; a diagonal is the last dim.
static void take_diagonals(sum_t *s, term_t *term) {
  for (int32_t d = 0; term->letters[d] && !s->graph->model->error;) {
    const char letter = term->letters[d];
    const char *again = strchr(term->letters + d + 1, letter);
    if (!again) {
      ++d;
      continue;
    }
    const int32_t other = (int32_t)(again - term->letters);
    const shoal_attr_t attrs[] = {shoal_attr_int("rows", d), shoal_attr_int("columns", other)};
    term->value = apply(s->graph, "shoal.diagonal", term->value, 2, attrs);
    drop(term->letters, other);
    drop(term->letters, d);
    const size_t length = strlen(term->letters);
    term->letters[length] = letter;
    term->letters[length + 1] = 0;
  }
}

// Sums what the result lacks, and puts the rest into its order.
static shoal_value_t finish(sum_t *s, term_t *term) {
  int64_t dims[SHOAL_MAX_RANK], perm[SHOAL_MAX_RANK];
  int32_t count = 0, kept = 0;
  bool moved = false;
  for (int32_t d = 0; term->letters[d]; ++d) {
    if (!strchr(s->out, term->letters[d])) dims[count++] = d;
  }
  if (count > 0) {
    const shoal_attr_t attrs[] = {shoal_attr_ints("dims", count, dims)};
    term->value = apply(s->graph, "shoal.reduce_sum", term->value, 1, attrs);
    for (int32_t i = count - 1; i >= 0; --i) drop(term->letters, (int32_t)dims[i]);
  }
  for (; s->out[kept]; ++kept) {
    perm[kept] = strchr(term->letters, s->out[kept]) - term->letters;
    moved |= perm[kept] != kept;
  }
  if (!moved) return term->value;
  const shoal_attr_t attrs[] = {shoal_attr_ints("perm", kept, perm)};
  return apply(s->graph, "shoal.transpose", term->value, 1, attrs);
}

// ---- two of them --------------------------------------------------------------------------------

// Is the letter read behind term t?
static bool is_needed(const sum_t *s, int32_t t, char letter) {
  bool needed = strchr(s->out, letter) != NULL;
  for (int32_t k = t + 1; k < s->count; ++k) needed |= strchr(s->terms[k].letters, letter) != NULL;
  return needed;
}

// terms[0] becomes its product with terms[t], in the result's order if that is the last one.
static bool multiply(sum_t *s, int32_t t) {
  term_t *a = &s->terms[0], *b = &s->terms[t];
  char result[SHOAL_MAX_RANK + 1] = "", text[4 * SHOAL_MAX_RANK];
  const bool last = t + 1 == s->count;
  const char *sources[] = {last ? s->out : a->letters, last ? "" : b->letters};
  for (int32_t k = 0; k < 2; ++k) {
    for (const char *letter = sources[k]; *letter; ++letter) {
      if (strchr(result, *letter) || !is_needed(s, t, *letter)) continue;
      if (!append(s, result, *letter)) return false;
    }
  }
  shoal_format(text, sizeof text, "%s,%s->%s", a->letters, b->letters, result);
  a->value = shoal_einsum(s->graph, a->value, b->value, text);
  memcpy(a->letters, result, sizeof result);
  return !s->graph->model->error;
}

static shoal_value_t build(sum_t *s) {
  const char *result = NULL;
  const shoal_value_t none = {0};
  find_free_letters(s);
  if (!read_operands(s, &result) || !find_sizes(s) || !read_result(s, result)) return none;
  for (int32_t t = 0; t < s->count; ++t) {
    squeeze(s, &s->terms[t]);
    take_diagonals(s, &s->terms[t]);
  }
  for (int32_t t = 1; t < s->count; ++t) {
    if (!multiply(s, t)) return none;
  }
  return finish(s, &s->terms[0]);
}

shoal_value_t shoal_nn_einsum_at(shoal_graph_t *graph, const char *equation, int32_t count,
                                 const shoal_value_t *values, const char *file, int line) {
  shoal_value_t out = {0};
  sum_t s = {.graph = graph, .equation = equation ? equation : "", .count = count};
  if (!graph || graph->model->error) return out;
  shoal_site_push(graph, file, line);
  if (count < 1 || count > MAX_OPERANDS) {
    refuse(&s, "there must be 1 to 32 operands");
  } else {
    bool ok = true;
    for (int32_t t = 0; t < count; ++t) {
      s.terms[t].value = values[t];
      ok &= shoal_value_ok(values[t]);
    }
    if (!ok) refuse(&s, "an operand is no value");
    if (ok) out = build(&s);
  }
  shoal_site_pop(graph);
  return out;
}
