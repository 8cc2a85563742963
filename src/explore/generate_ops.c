// Which op comes next in a random case: one that has occurred least among a few. Ops in
// generators.inc have uses of their own; all others, and sometimes these, are taken from the
// examples of their records, so a new op is covered without an edit here.
#include <stdio.h>
#include <string.h>

#include "explore/generators.h"

typedef shoal_case_ref_t ref_t;
typedef shoal_generator_t gen_t;

static const struct {
  const char *op;
  void (*generate)(gen_t *g, const char *op);
} table[] = {
#define SHOAL_GENERATE(op, function) {#op, shoal_use_##function},
#include "explore/generators.inc"
#undef SHOAL_GENERATE
};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

static const shoal_op_t *find_op(const gen_t *g, const char *name) {
  char full[80];
  const shoal_op_t *op = NULL;
  snprintf(full, sizeof full, "shoal.%s", name);
  shoal_status_free(shoal_op_find(g->registry, full, &op));
  return op;
}

// How often it was differentiated, or occurred at all where it cannot be; or how often it was cut,
// if that is less.
static int64_t drawn(const gen_t *g, const shoal_op_t *op) {
  int64_t count = shoal_coverage_count(g->coverage, "gradient", op->name);
  if (count < 0) count = shoal_coverage_count(g->coverage, "op", op->name);
  const int64_t cut = shoal_coverage_count(g->coverage, "cut", op->name);
  return cut >= 0 && cut < count ? cut : count;
}

// A way that has never occurred, though it could have more often than others, and the op it is of,
// or whose gradient that is: "gelu" for "shoal.gelu_grad {dy:sum -> dx:sum}".
typedef struct wish {
  const char *way;  // NULL: there is none
  bool gradient;
  char op[64];
} wish_t;

static wish_t draw_wish(gen_t *g) {
  wish_t wish = {0};
  int64_t count = 0;
  while (shoal_coverage_missing(g->coverage, "way", count)) ++count;
  if (count == 0) return wish;
  const char *way = NULL;
  for (int64_t i = 0, most = -1; i < 8; ++i) {
    const char *other = shoal_coverage_missing(g->coverage, "way", shoal_roll(g, count));
    const int64_t offered = shoal_coverage_offered(g->coverage, other);
    if (offered > most) way = other, most = offered;
  }
  if (strncmp(way, "shoal.", 6) != 0) return wish;
  snprintf(wish.op, sizeof wish.op, "%.*s", (int)strcspn(way + 6, " "), way + 6);
  char *gradient = strstr(wish.op, "_grad");
  if (gradient) *gradient = 0;
  wish.way = way;
  wish.gradient = gradient != NULL;
  return wish;
}

// One of the last ops that could have been cut and never were, now and then; NULL: some other. The
// dice are its own.
static const shoal_op_t *draw_uncut(const gen_t *g) {
  enum { LAST = 3 };
  gen_t aside = *g;
  aside.state = ~aside.state * 7;
  int64_t count = 0;
  while (count <= LAST && shoal_coverage_missing(g->coverage, "cut", count)) ++count;
  if (count == 0 || count > LAST || !shoal_chance(&aside, 30)) return NULL;
  const char *name = shoal_coverage_missing(g->coverage, "cut", shoal_roll(&aside, count));
  return strncmp(name, "shoal.", 6) == 0 ? find_op(g, name + 6) : NULL;
}

const shoal_op_t *shoal_generate_scarce(gen_t *g) {
  enum { SAMPLE = 6 };
  const shoal_op_t *uncut = draw_uncut(g);
  if (uncut) return uncut;
  const wish_t wish = shoal_chance(g, 35) ? draw_wish(g) : (wish_t){0};
  const shoal_op_t *wished = wish.way ? find_op(g, wish.op) : NULL;
  if (wished) return wished;
  const int64_t count = shoal_registry_count(g->registry);
  const shoal_op_t *best = NULL;
  for (int i = 0; i < SAMPLE; ++i) {
    const shoal_op_t *op = shoal_registry_op(g->registry, shoal_roll(g, count));
    if (!best || drawn(g, op) < drawn(g, best)) best = op;
  }
  return best;
}

void shoal_generate_op(gen_t *g) {
  if (shoal_chance(g, 40) && shoal_generate_from_record(g, shoal_generate_scarce(g))) return;
  int64_t best = -1, least = INT64_MAX;
  for (int i = 0; i < 3; ++i) {  // of three, the one that was drawn least
    const int64_t at = shoal_roll(g, TABLE_COUNT);
    const shoal_op_t *op = find_op(g, table[at].op);
    if (op && drawn(g, op) < least) best = at, least = drawn(g, op);
    if (shoal_chance(g, 40)) break;
  }
  if (best >= 0) table[best].generate(g, table[best].op);
}

// "shoal.slice {x:sum -> out:sum}": a slice of a product. "shoal.gelu_grad {dy:sum -> dx:sum}": a
// gelu that goes into a product, whose gradient is a sum.
void shoal_generate_wish(gen_t *g) {
  const wish_t wish = draw_wish(g);
  if (!wish.way) return;
  for (int64_t i = 0; i < TABLE_COUNT; ++i) {
    if (strcmp(table[i].op, wish.op) != 0) continue;
    ref_t x = shoal_generate_value(g, 2, 2 + (int32_t)shoal_roll(g, 3));
    if (shoal_generate_shape(g, x).rank < 3 &&
        (strstr(wish.op, "conv") || strstr(wish.op, "pool"))) {
      shoal_shape_t shape = {4, {2, 2, 4 + shoal_roll(g, 3), 3 + shoal_roll(g, 3)}};
      shoal_generate_fresh(g, &shape);
    }
    g->newest = true;
    if (strstr(wish.way, ":sum")) shoal_use_matmul(g, "matmul");
    table[i].generate(g, table[i].op);  // the case keeps the name
    if (wish.gradient) shoal_use_einsum(g, "einsum");
    g->newest = false;
    return;
  }
}
