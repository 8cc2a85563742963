// Example calls: parsing the mini-language of case.h, and filling operands with test data.
#include "op/case.h"

#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "base/status.h"
#include "base/text.h"

static bool scan_ints(shoal_scan_t *scan, int32_t *out_count, int64_t out_values[SHOAL_MAX_RANK]) {
  *out_count = 0;
  if (!shoal_scan_expect(scan, "[")) return false;
  if (shoal_scan_accept(scan, "]")) return true;
  do {
    if (*out_count == SHOAL_MAX_RANK) {
      return shoal_scan_fail(scan, "a list has at most %d numbers", SHOAL_MAX_RANK);
    }
    if (!shoal_scan_int(scan, &out_values[(*out_count)++])) return false;
  } while (shoal_scan_accept(scan, ","));
  return shoal_scan_expect(scan, "]");
}

static bool scan_dtype(shoal_scan_t *scan, shoal_dtype_t *out_dtype) {
  char word[32];
  if (!shoal_scan_word(scan, word, sizeof word)) return false;
  return shoal_dtype_parse(word, out_dtype) || shoal_scan_fail(scan, "'%s' is no dtype", word);
}

static bool scan_input(shoal_scan_t *scan, shoal_case_t *test_case) {
  const int32_t i = test_case->input_count;
  if (i == SHOAL_CASE_MAX_INPUTS) return shoal_scan_fail(scan, "too many inputs");
  shoal_type_t *type = &test_case->inputs[i];
  test_case->limit[i] = 2;
  if (!scan_dtype(scan, &type->dtype)) return false;
  if (!scan_ints(scan, &type->shape.rank, type->shape.dims)) return false;
  if (shoal_scan_accept(scan, "<")) {
    if (!shoal_scan_int(scan, &test_case->limit[i])) return false;
    if (test_case->limit[i] < 1) return shoal_scan_fail(scan, "a limit is at least 1");
  }
  test_case->positive[i] = shoal_scan_accept(scan, "+");
  ++test_case->input_count;
  return true;
}

static bool scan_attr(shoal_scan_t *scan, const shoal_op_t *op, shoal_arena_t *arena,
                      shoal_attr_t *out_attr) {
  char word[64], string[128];
  if (!shoal_scan_word(scan, word, sizeof word) || !shoal_scan_expect(scan, "=")) return false;
  const shoal_attr_schema_t *schema = NULL;
  for (int32_t i = 0; i < op->attr_count && !schema; ++i) {
    if (strcmp(op->attrs[i].name, word) == 0) schema = &op->attrs[i];
  }
  if (!schema) return shoal_scan_fail(scan, "%s has no attribute '%s'", op->name, word);
  *out_attr = (shoal_attr_t){.name = schema->name, .kind = schema->kind};
  shoal_dtype_t dtype;
  switch (schema->kind) {
    case SHOAL_ATTR_INT:
      return shoal_scan_int(scan, &out_attr->value.i);
    case SHOAL_ATTR_INTS:
      return scan_ints(scan, &out_attr->value.count, out_attr->value.ints);
    case SHOAL_ATTR_REAL:
      return shoal_scan_double(scan, &out_attr->value.f);
    case SHOAL_ATTR_STRING:
      if (!shoal_scan_quoted(scan, string, sizeof string)) return false;
      out_attr->value.s = shoal_arena_strdup(arena, string);
      return out_attr->value.s != NULL;  // no error in the scanner: memory is short
    case SHOAL_ATTR_DTYPE:
      if (!scan_dtype(scan, &dtype)) return false;
      out_attr->value.i = (int64_t)dtype;
      return true;
    case SHOAL_ATTR_PLACE:
      break;
  }
  return shoal_scan_fail(scan, "a place can't be written in a case");
}

shoal_status_t shoal_case_parse(const shoal_op_t *op, const char *text, shoal_arena_t *arena,
                                shoal_case_t *out_case) {
  shoal_scan_t scan;
  shoal_scan_init(text, text, &scan);
  shoal_case_t test_case = {.op = op};
  shoal_attr_t *attrs = SHOAL_NEW(arena, shoal_attr_t, op->attr_count);
  if (!attrs) return SHOAL_OOM();
  int32_t attr_count = 0;
  bool ok = true;
  if (!shoal_scan_peek(&scan, ";") && !shoal_scan_at_end(&scan)) {
    do ok = scan_input(&scan, &test_case);
    while (ok && shoal_scan_accept(&scan, ","));
  }
  if (ok && shoal_scan_accept(&scan, ";")) {
    do {
      ok = attr_count < op->attr_count || shoal_scan_fail(&scan, "too many attributes");
      ok = ok && scan_attr(&scan, op, arena, &attrs[attr_count++]);
    } while (ok && shoal_scan_accept(&scan, ","));
  }
  if (ok && !shoal_scan_at_end(&scan)) shoal_scan_fail(&scan, "expected ',' or the end");
  if (!ok && !scan.error) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_scan_status(&scan));
  SHOAL_RETURN_IF_ERROR(shoal_op_attrs(op, attr_count, attrs, arena, &test_case.attrs));
  shoal_op_complete(op, test_case.input_count, test_case.inputs, test_case.attrs);
  *out_case = test_case;
  return NULL;
}

void shoal_case_fill(const shoal_case_t *test_case, int32_t input, uint64_t seed,
                     shoal_tensor_t tensor) {
  const int64_t count = shoal_shape_count(&tensor.shape), limit = test_case->limit[input];
  const bool positive = test_case->positive[input];
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = shoal_philox_word(seed, (uint64_t)input + 1, 0, (uint64_t)i);
    if (shoal_dtype_is_float(tensor.dtype)) {
      const double u = shoal_philox_uniform(word);
      shoal_dtype_store(tensor.dtype, tensor.data, i, positive ? 0.1 + u : 2 * u - 1);
    } else {
      const int64_t from = positive && limit > 1;
      shoal_dtype_store_int(tensor.dtype, tensor.data, i, from + word % (limit - from));
    }
  }
}
