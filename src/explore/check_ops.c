// `shoal check ops`: everything that a record says of its op, on its example calls and on calls
// like them with other sizes.
//
// Every call is cut in all ways that its rule has, in 2, 3, 5 and 7 parts of random lengths, empty
// ones among them, and run twice and in place. Gradients, decompositions, dtypes and NaN are
// checked on the examples, on some of the random sizes, and with each size 0, 1 and a prime
// (check_sizes.c).
#include <string.h>

#include "base/dtype.h"
#include "explore/check_ops.h"

static const int64_t PARTS[] = {2, 3, 5, 7};
enum { PARTS_COUNT = sizeof PARTS / sizeof *PARTS };
enum { THOROUGH = 4 };  // every so many calls of random sizes, all is checked
enum { TRIES = 4 };     // at random sizes, for each that is wanted

// ---- one call ----------------------------------------------------------------------------------

shoal_status_t check_ways(checker_t *c, const subject_t *s) {
  const shoal_rule_t *rule;
  shoal_status_t status = shoal_rules_get(c->rules, &s->call, &rule);
  if (status) return check_refused(c, &s->call, "it has no rule", status);
  for (int32_t i = 0; i < PARTS_COUNT; ++i) {
    shoal_tried_t tried;
    SHOAL_RETURN_IF_ERROR(shoal_rules_try(&s->call, rule, PARTS[i], s->seed + (uint64_t)i,
                                          shoal_allocator_system(), &tried));
    c->counts.ways += tried.ways;
    if (tried.wrong < 0) continue;
    const char *way = "";
    SHOAL_RETURN_IF_ERROR(
        shoal_way_print(s->call.op, s->call.attrs, &rule->ways[tried.wrong], &c->arena, &way));
    SHOAL_RETURN_IF_ERROR(check_failed(
        c, &s->call,
        shoal_arena_printf(&c->arena, "in %lld parts it is not the whole: %s (found on %s)",
                           (long long)PARTS[i], way, rule->key)));
  }
  return NULL;
}

shoal_status_t check_all(checker_t *c, const subject_t *s) {
  SHOAL_RETURN_IF_ERROR(check_dtypes(c, s));
  SHOAL_RETURN_IF_ERROR(check_nan(c, s));
  if (s->call.op->gradient) SHOAL_RETURN_IF_ERROR(check_gradient(c, s));
  return check_decomposition(c, s);
}

static bool has_floats(int32_t count, const shoal_type_t *types) {
  for (int32_t i = 0; i < count; ++i) {
    if (shoal_dtype_is_float(types[i].dtype)) return true;
  }
  return false;
}

// Call number `number` of the op: an example, or one of random sizes.
static shoal_status_t check_number(checker_t *c, int64_t number, int32_t cases, uint64_t seed) {
  shoal_case_t example;
  shoal_call_t varied;
  subject_t s;
  bool found = false;
  SHOAL_RETURN_IF_ERROR(shoal_case_parse(c->op, c->op->cases[number % cases], &c->arena, &example));
  const shoal_call_t call = {.op = c->op,
                             .input_count = example.input_count,
                             .output_count = shoal_op_outputs(c->op, example.attrs),
                             .inputs = example.inputs,
                             .attrs = example.attrs};
  if (number >= cases) {
    SHOAL_RETURN_IF_ERROR(shoal_rules_vary(&call, seed, &c->arena, &varied, &found));
    if (!found) return NULL;
  }
  SHOAL_RETURN_IF_ERROR(subject_make(c, &example, found ? &varied : &call, seed, &s));
  s.example = number < cases;
  c->floats |= has_floats(call.input_count, s.call.inputs) &&
               has_floats(s.call.output_count, s.call.outputs);
  ++c->counts.shapes;
  c->counts.random += found;
  SHOAL_RETURN_IF_ERROR(check_ways(c, &s));
  SHOAL_RETURN_IF_ERROR(check_values(c, &s));
  if (s.example || number / cases % THOROUGH == 1) {
    SHOAL_RETURN_IF_ERROR(check_all(c, &s));
  }
  return s.example ? check_sizes(c, &example, &s) : NULL;
}

// ---- one op ------------------------------------------------------------------------------------

static void add_counts(shoal_check_ops_counts_t *sum, const shoal_check_ops_counts_t *more) {
  sum->gradients += more->gradients;
  sum->decompositions += more->decompositions;
  sum->dtypes += more->dtypes;
  sum->shapes += more->shapes;
  sum->random += more->random;
  sum->empty += more->empty;
  sum->refused += more->refused;
  sum->nan += more->nan;
  sum->repeats += more->repeats;
  sum->in_place += more->in_place;
  sum->ways += more->ways;
}

// Nothing that can be differentiated is left out.
static shoal_status_t check_skipped(checker_t *c) {
  if (!c->op->gradient || !c->floats || c->counts.gradients > 0) return NULL;
  return check_failed(c, NULL, "it has a gradient, which was never compared with anything");
}

static shoal_status_t check_op(checker_t *c, uint64_t seed) {
  int32_t cases = 0;
  c->counts = (shoal_check_ops_counts_t){0};
  c->failed = 0;
  c->floats = false;
  while (c->op->cases && c->op->cases[cases]) ++cases;
  if (cases == 0 || !c->op->kernel) {
    const char *what =
        cases == 0 ? "not checked: it has no example calls" : "not checked: it has no kernel";
    // A gradient that nothing can be compared with is a failure.
    if (c->op->gradient) return check_failed(c, NULL, what);
    check_say(c, shoal_arena_printf(&c->arena, "%-32s %s", c->op->name, what));
    return NULL;
  }
  // Some examples have no size that could be another one.
  const int64_t tries = cases + TRIES * c->options->shapes;
  for (int64_t k = 0; k < cases || (k < tries && c->counts.random < c->options->shapes); ++k) {
    shoal_arena_clear(&c->arena);
    SHOAL_RETURN_IF_ERROR(check_number(c, k, cases, seed + (uint64_t)k * 16));
  }
  shoal_arena_clear(&c->arena);
  SHOAL_RETURN_IF_ERROR(check_skipped(c));
  return check_note_skipped(c);
}

static void tell_op(const checker_t *c, shoal_arena_t *arena) {
  const shoal_check_ops_counts_t *n = &c->counts;
  check_say(c, shoal_arena_printf(
                   arena,
                   "%-32s gradients %4lld  decomposed %3lld  dtypes %4lld  shapes %3lld "
                   "(%3lld random, %2lld empty)  nan %4lld%s  in place %4lld  ways %5lld  %s",
                   c->op->name, (long long)n->gradients, (long long)n->decompositions,
                   (long long)n->dtypes, (long long)n->shapes, (long long)n->random,
                   (long long)n->empty, (long long)n->nan, c->op->nan ? "*" : " ",
                   (long long)n->in_place, (long long)n->ways, c->failed ? "FAILED" : "ok"));
}

// ---- all ---------------------------------------------------------------------------------------

shoal_status_t shoal_check_ops(shoal_registry_t *registry, const shoal_check_ops_options_t *options,
                               shoal_check_ops_report_t *out_report) {
  shoal_check_ops_options_t o = *options;
  if (o.shapes == 0) o.shapes = 200;
  *out_report = (shoal_check_ops_report_t){0};
  checker_t c = {.options = &o, .registry = registry};
  shoal_arena_init(shoal_allocator_system(), &c.arena);
  shoal_arena_init(shoal_allocator_system(), &c.kept);
  const shoal_op_t *only = NULL;
  shoal_status_t status = shoal_rules_create(shoal_allocator_system(), &c.rules);
  if (!status && o.op) status = shoal_op_find(registry, o.op, &only);
  for (int64_t i = 0; !status && i < shoal_registry_count(registry); ++i) {
    c.op = shoal_registry_op(registry, i);
    if (only && c.op != only) continue;
    status = check_op(&c, o.seed * 1000003 + (uint64_t)i * 4099);
    if (status) status = shoal_status_annotatef(status, "while checking '%s'", c.op->name);
    if (status || (c.counts.shapes == 0 && !c.failed)) continue;
    tell_op(&c, &c.arena);
    ++out_report->ops;
    out_report->failed += c.failed > 0;
    out_report->documented += c.op->nan != NULL;
    add_counts(&out_report->counts, &c.counts);
  }
  if (!status) status = check_tell_skipped(&c);
  shoal_rules_free(c.rules);
  shoal_arena_deinit(&c.arena);
  shoal_arena_deinit(&c.kept);
  if (status || out_report->failed == 0) return status;
  return SHOAL_ERROR(MISMATCH, "%lld of %lld ops do not do what their records say",
                     (long long)out_report->failed, (long long)out_report->ops);
}
