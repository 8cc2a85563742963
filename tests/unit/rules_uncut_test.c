// What no way cuts is what docs/rules.md lists, dim by dim. Each operand's dim of two elements or
// more, in each example call of each op, is cut by some way or stands in the page's table; nothing
// stands there that is cut in all of them; the records of just these ops say why in words; and what
// the table calls "in phases" has a decomposition.
#include <stdio.h>
#include <stdlib.h>

#include "op/families/family.h"
#include "op/operands.h"
#include "rules_support.h"

enum { MOST_ROWS = 64, MOST_TERMS = 12 };

// ---- the page's table --------------------------------------------------------------------------

typedef struct term {
  char operand[32], dim[32];
  bool seen;  // some call has such a dim that is not cut
} term_t;

typedef struct row {
  char ops[160];  // ", softmax, softmax_grad,"
  bool in_phases, used;
  int32_t term_count;
  term_t terms[MOST_TERMS];
} row_t;

static void parse_terms(char *text, row_t *row) {
  char *rest = text;
  for (char *term; (term = strtok_r(rest, " ,`", &rest));) {
    char *colon = strchr(term, ':');
    assert_non_null(colon);
    assert_true(row->term_count < MOST_TERMS);
    *colon = 0;
    term_t *to = &row->terms[row->term_count++];
    snprintf(to->operand, sizeof to->operand, "%s", term);
    snprintf(to->dim, sizeof to->dim, "%s", colon + 1);
  }
}

static int32_t read_table(row_t *rows) {
  char path[1024], line[1024];
  int32_t count = 0;
  bool inside = false;
  snprintf(path, sizeof path, "%s/docs/rules.md", getenv("SHOAL_SOURCE_DIR"));
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "## ", 3) == 0) inside = strcmp(line, "## What cannot be cut\n") == 0;
    if (!inside || strncmp(line, "| ", 2) != 0 || strncmp(line, "| ops |", 7) == 0 ||
        strncmp(line, "| --- |", 7) == 0)
      continue;
    char *rest = line + 2, *fields[3];
    for (int32_t i = 0; i < 3; ++i) {
      fields[i] = rest;
      rest = strstr(rest, " | ");
      assert_non_null(rest);
      *rest = 0;
      rest += 3;
    }
    assert_true(count < MOST_ROWS);
    row_t *row = &rows[count++];
    *row = (row_t){.in_phases = strcmp(fields[2], "yes") == 0};
    snprintf(row->ops, sizeof row->ops, ", %s,", fields[0]);
    parse_terms(fields[1], row);
  }
  fclose(file);
  return count;
}

static row_t *row_of(row_t *rows, int32_t count, const shoal_op_t *op) {
  char name[64];
  snprintf(name, sizeof name, ", %s,", op->name + strlen("shoal."));
  for (int32_t i = 0; i < count; ++i) {
    if (strstr(rows[i].ops, name)) return &rows[i];
  }
  return NULL;
}

// ---- dims --------------------------------------------------------------------------------------

static bool is_attr_dim(const shoal_call_t *call, const char *name, int32_t dim, int32_t rank) {
  for (int32_t a = 0; a < call->op->attr_count; ++a) {
    if (strcmp(call->op->attrs[a].name, name) != 0) continue;
    const shoal_attr_value_t *value = &call->attrs[a];
    if (call->op->attrs[a].kind == SHOAL_ATTR_INT) return shoal_normal_axis(value->i, rank) == dim;
    for (int32_t i = 0; i < value->count; ++i) {
      if (shoal_normal_axis(shoal_attr_list(value)[i], rank) == dim) return true;
    }
  }
  return false;
}

static bool says(const term_t *term, const shoal_call_t *call, const char *operand, int32_t dim,
                 int32_t rank) {
  char *end;
  if (strcmp(term->operand, "*") != 0 && strcmp(term->operand, operand) != 0) return false;
  if (strcmp(term->dim, "*") == 0) return true;
  long number = strtol(term->dim, &end, 10);
  if (end == term->dim) return is_attr_dim(call, term->dim, dim, rank);
  if (number < 0) number += rank;
  return strcmp(end, "..") == 0 ? dim >= number : dim == number;
}

static bool is_cut(const shoal_rule_t *rule, int32_t operand, int32_t dim) {
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_operand_t *o = &rule->ways[w].operands[operand];
    if (o->kind == SHOAL_OPERAND_CUT && o->dim == dim) return true;
  }
  return false;
}

// A call without elements proves nothing.
static bool is_empty(const shoal_call_t *call) {
  for (int32_t o = 0; o < call->input_count + call->output_count; ++o) {
    if (shoal_shape_count(operand_shape(call, o)) == 0) return true;
  }
  return false;
}

// How many dims of the call are neither cut nor in the row, which may be NULL.
static int look_at(bench_t *b, const shoal_call_t *call, const char *example, row_t *row) {
  const shoal_op_t *op = call->op;
  const shoal_rule_t *rule = bench_rule(b, call);
  int wrong = 0;
  for (int32_t o = 0; o < call->input_count + call->output_count; ++o) {
    const shoal_shape_t *shape = operand_shape(call, o);
    const char *name = o < call->input_count
                           ? shoal_input_name(op, call->attrs, o).name
                           : shoal_output_name(op, call->output_count, o - call->input_count).name;
    for (int32_t d = 0; d < shape->rank; ++d) {
      if (shape->dims[d] < 2 || is_cut(rule, o, d)) continue;
      bool said = false;
      for (int32_t t = 0; row && t < row->term_count; ++t) {
        if (!says(&row->terms[t], call, name, d, shape->rank)) continue;
        said = row->terms[t].seen = true;
      }
      if (said) continue;
      print_error("%s %s: no way cuts %s:%d, and docs/rules.md does not say so\n", op->name,
                  example, name, d);
      ++wrong;
    }
  }
  return wrong;
}

static void test_every_dim(void **state) {
  (void)state;
  static row_t rows[MOST_ROWS];
  const int32_t count = read_table(rows);
  assert_true(count > 20);
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (int64_t i = 0; i < shoal_registry_count(b.registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(b.registry, i);
    row_t *row = row_of(rows, count, op);
    if ((row != NULL) != (op->uncut != NULL) ||
        (row && row->in_phases != (op->decompose != NULL))) {
      print_error("%s: its record says \"%s\", and docs/rules.md otherwise\n", op->name,
                  op->uncut ? op->uncut : "");
      ++wrong;
    }
    if (row) row->used = true;
    for (int32_t k = 0; op->cases && op->cases[k]; ++k) {
      if (UNIT_SAMPLES && k) break;
      const shoal_call_t call = bench_call(&b, op, op->cases[k]);
      if (!is_empty(&call)) wrong += look_at(&b, &call, op->cases[k], row);
    }
  }
  for (int32_t i = 0; i < count && !UNIT_SAMPLES; ++i) {
    for (int32_t t = 0; t < rows[i].term_count; ++t) {
      if (rows[i].used && rows[i].terms[t].seen) continue;
      print_error("docs/rules.md: %s:%s of %.*s is cut\n", rows[i].terms[t].operand,
                  rows[i].terms[t].dim, (int)strlen(rows[i].ops) - 3, rows[i].ops + 2);
      ++wrong;
    }
  }
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_dim)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
