// Text of ways and rules, print and parse. The forms are shown at the head of shoal/rules.h:
//   rule     op: way way ...
//   way      {operand, ... -> operand, ...}[~]          operands that are whole are left out
//   operand  name:dim[*repeat][/scale][@from..to][#items][+before+after]  |  name:flat  |
//   name:sum|max|min|... name     of the record; variadic inputs and outputs whose name
//   repeats are name[0], name[1], ...
// The size of the item space is written only where an operand is dealt by it ('#'); elsewhere any
// operand shows it, and a parsed way leaves it 0.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "layout/reduce.h"
#include "op/operands.h"
#include "rules/rules.h"
#include "shoal/options.h"

// ---- printing ----------------------------------------------------------------------------------

static void put_name(shoal_text_t *text, const shoal_op_t *op, const shoal_attr_value_t *attrs,
                     const shoal_way_t *way, int32_t operand) {
  const int32_t output = operand - way->input_count;
  const shoal_operand_name_t name = output >= 0 ? shoal_output_name(op, way->output_count, output)
                                                : shoal_input_name(op, attrs, operand);
  shoal_text_add(text, name.name);
  if (name.number >= 0) shoal_text_addf(text, "[%d]", name.number);
}

static void put_operand(shoal_text_t *text, const shoal_way_t *way, const shoal_way_operand_t *o) {
  if (o->kind == SHOAL_OPERAND_FLAT) {
    shoal_text_add(text, ":flat");
    return;
  }
  if (o->kind == SHOAL_OPERAND_PARTIAL) {
    shoal_text_addf(text, ":%s", shoal_reduce_name(o->reduce));
    return;
  }
  shoal_text_addf(text, ":%d", o->dim);
  if (o->repeat > 1) shoal_text_addf(text, "*%lld", (long long)o->repeat);
  if (o->scale > 1) shoal_text_addf(text, "/%lld", (long long)o->scale);
  if (o->length) {
    shoal_text_addf(text, "@%lld..%lld", (long long)o->offset, (long long)(o->offset + o->length));
  }
  if (o->dealt_by_items) shoal_text_addf(text, "#%lld", (long long)way->items);
  if (o->before || o->after) {
    shoal_text_addf(text, "%+lld%+lld", (long long)o->before, (long long)o->after);
  }
}

// Returns whether there were any.
static bool put_operands(shoal_text_t *text, const shoal_op_t *op, const shoal_attr_value_t *attrs,
                         const shoal_way_t *way, int32_t from, int32_t to) {
  const char *separator = "";
  for (int32_t i = from; i < to; ++i) {
    if (way->operands[i].kind == SHOAL_OPERAND_WHOLE) continue;
    shoal_text_add(text, separator);
    put_name(text, op, attrs, way, i);
    put_operand(text, way, &way->operands[i]);
    separator = ", ";
  }
  return *separator;
}

static void put_way(shoal_text_t *text, const shoal_op_t *op, const shoal_attr_value_t *attrs,
                    const shoal_way_t *way) {
  shoal_text_add(text, "{");
  bool any = put_operands(text, op, attrs, way, 0, way->input_count);
  shoal_text_add(text, any ? " -> " : "-> ");
  put_operands(text, op, attrs, way, way->input_count, way->input_count + way->output_count);
  shoal_text_add(text, way->any_order ? "}~" : "}");
}

static bool fits(const shoal_op_t *op, const shoal_attr_value_t *attrs, const shoal_way_t *way) {
  shoal_status_t status = shoal_op_check_inputs(op, attrs, way->input_count);
  shoal_status_free(status);
  return !status && way->output_count == shoal_op_outputs(op, attrs);
}

shoal_status_t shoal_way_print(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                               const shoal_way_t *way, shoal_arena_t *arena,
                               const char **out_text) {
  if (!fits(op, attrs, way))
    return SHOAL_ERROR(INVALID_ARGUMENT, "the way is not one of '%s'", op->name);
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  put_way(&text, op, attrs, way);
  return shoal_text_finish(&text, arena, out_text);
}

shoal_status_t shoal_rule_print(const shoal_op_t *op, const shoal_rule_t *rule,
                                shoal_arena_t *arena, const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_text_addf(&text, "%s:", op->name);
  for (int32_t i = 0; i < rule->way_count; ++i) {
    if (!fits(op, rule->attrs, &rule->ways[i])) {
      shoal_text_deinit(&text);
      return SHOAL_ERROR(INVALID_ARGUMENT, "the rule is not one of '%s'", op->name);
    }
    shoal_text_add(&text, " ");
    put_way(&text, op, rule->attrs, &rule->ways[i]);
  }
  return shoal_text_finish(&text, arena, out_text);
}

// ---- parsing -----------------------------------------------------------------------------------

typedef struct parser {
  shoal_scan_t scan;
  const shoal_op_t *op;
  const shoal_attr_value_t *attrs;
  shoal_way_t *way;
  shoal_way_operand_t *operands;
} parser_t;

// The operand of that name among the inputs or outputs, or -1.
static int32_t find_operand(parser_t *p, bool output, const char *name) {
  const shoal_op_t *op = p->op;
  int32_t count = output ? op->output_count : op->input_count, found = 0;
  const char *const *names = output ? op->outputs : op->inputs;
  while (found < count && strcmp(names[found], name)) ++found;
  if (found == count) {
    shoal_hint_t hint;
    const char *meant = shoal_did_you_mean(name, names, count, "", &hint);
    shoal_scan_fail(&p->scan, "'%s' has no %s '%s'%s%s", op->name, output ? "output" : "input",
                    name, meant[0] ? ": " : "", meant);
    return -1;
  }
  const int32_t outputs = p->way->output_count;
  const bool repeats = output ? shoal_output_name(op, outputs, found).number >= 0
                              : op->variadic && found == count - 1;
  int64_t index = 0;
  if (repeats && (!shoal_scan_expect(&p->scan, "[") || !shoal_scan_int(&p->scan, &index) ||
                  !shoal_scan_expect(&p->scan, "]"))) {
    return -1;
  }
  if (!output && !repeats) found = shoal_op_given(op, p->attrs, found);
  if (found < 0) shoal_scan_fail(&p->scan, "the input '%s' is left out", name);
  if (index < 0 || found + index >= (output ? outputs : p->way->input_count)) {
    shoal_scan_fail(&p->scan, "there is no %s %s[%lld]", output ? "output" : "input", name,
                    (long long)index);
    return -1;
  }
  return found < 0 ? -1 : found + (int32_t)index + (output ? p->way->input_count : 0);
}

static bool scan_positive(shoal_scan_t *scan, int64_t *out_value) {
  if (!shoal_scan_int(scan, out_value)) return false;
  if (*out_value < 1) return shoal_scan_fail(scan, "the number must be at least 1");
  return *out_value <= INT32_MAX || shoal_scan_fail(scan, "the number is too large");
}

static bool scan_signed(shoal_scan_t *scan, int64_t *out_value) {
  if (shoal_scan_peek(scan, "-") && !shoal_scan_peek(scan, "->")) {
    return shoal_scan_int(scan, out_value);
  }
  return shoal_scan_expect(scan, "+") && shoal_scan_int(scan, out_value);
}

static bool parse_cut(parser_t *p, shoal_way_operand_t *o) {
  shoal_scan_t *scan = &p->scan;
  int64_t dim = 0, end = 0, items = 0;
  *o = (shoal_way_operand_t){.kind = SHOAL_OPERAND_CUT, .scale = 1, .repeat = 1};
  if (!shoal_scan_int(scan, &dim)) return false;
  if (dim < 0 || dim >= SHOAL_MAX_RANK)
    return shoal_scan_fail(scan, "there is no dim %lld", (long long)dim);
  o->dim = (int32_t)dim;
  if (shoal_scan_accept(scan, "*") && !scan_positive(scan, &o->repeat)) return false;
  if (shoal_scan_accept(scan, "/") && !scan_positive(scan, &o->scale)) return false;
  if (shoal_scan_accept(scan, "@")) {
    if (!shoal_scan_int(scan, &o->offset) || !shoal_scan_expect(scan, "..") ||
        !shoal_scan_int(scan, &end)) {
      return false;
    }
    if (o->offset < 0 || end <= o->offset) return shoal_scan_fail(scan, "the window is empty");
    o->length = end - o->offset;
  }
  if (shoal_scan_accept(scan, "#")) {
    if (!scan_positive(scan, &items)) return false;
    if (p->way->items && p->way->items != items) {
      return shoal_scan_fail(scan, "the operands disagree on the number of items");
    }
    p->way->items = items;
    o->dealt_by_items = true;
  }
  if (!shoal_scan_peek(scan, "+") && (!shoal_scan_peek(scan, "-") || shoal_scan_peek(scan, "->"))) {
    return true;
  }
  return scan_signed(scan, &o->before) && scan_signed(scan, &o->after);
}

static bool parse_operand(parser_t *p, bool output) {
  char word[64];
  if (!shoal_scan_word(&p->scan, word, sizeof word)) return false;
  int32_t operand = find_operand(p, output, word);
  if (operand < 0 || !shoal_scan_expect(&p->scan, ":")) return false;
  shoal_way_operand_t *o = &p->operands[operand];
  if (o->kind != SHOAL_OPERAND_WHOLE) return shoal_scan_fail(&p->scan, "'%s' is given twice", word);
  if (shoal_scan_accept(&p->scan, "flat")) {
    o->kind = SHOAL_OPERAND_FLAT;
    return true;
  }
  for (int i = 0; i < SHOAL_REDUCE_COUNT; ++i) {
    if (!shoal_scan_accept(&p->scan, shoal_reduce_name((shoal_reduce_t)i))) continue;
    o->kind = SHOAL_OPERAND_PARTIAL;
    o->reduce = (shoal_reduce_t)i;
    return true;
  }
  return parse_cut(p, o);
}

static bool parse_operands(parser_t *p, bool output, const char *end) {
  if (shoal_scan_accept(&p->scan, end)) return true;
  do {
    if (!parse_operand(p, output)) return false;
  } while (shoal_scan_accept(&p->scan, ","));
  return shoal_scan_expect(&p->scan, end);
}

shoal_status_t shoal_way_parse(const char *text, const shoal_op_t *op,
                               const shoal_attr_value_t *attrs, int32_t input_count,
                               shoal_arena_t *arena, shoal_way_t *out_way) {
  shoal_way_t way = {.input_count = input_count, .output_count = shoal_op_outputs(op, attrs)};
  if (!fits(op, attrs, &way)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' does not take %d inputs", op->name, input_count);
  }
  parser_t p = {.op = op, .attrs = attrs, .way = &way};
  p.operands = SHOAL_NEW(arena, shoal_way_operand_t, input_count + way.output_count);
  if (!p.operands) return SHOAL_OOM();
  way.operands = p.operands;
  shoal_scan_init("way", text, &p.scan);
  if (shoal_scan_expect(&p.scan, "{") && parse_operands(&p, false, "->") &&
      parse_operands(&p, true, "}")) {
    way.any_order = shoal_scan_accept(&p.scan, "~");
    if (!shoal_scan_at_end(&p.scan)) shoal_scan_fail(&p.scan, "text behind the way");
  }
  SHOAL_RETURN_IF_ERROR(shoal_scan_status(&p.scan));
  *out_way = way;
  return NULL;
}
