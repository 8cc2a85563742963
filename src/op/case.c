// Example calls: parsing the mini-language of case.h, and filling operands with test data.
#include "op/case.h"

#include "base/dtype.h"
#include "base/philox.h"
#include "op/indices.h"
#include "op/text.h"

static bool scan_input(shoal_scan_t *scan, shoal_case_t *test_case) {
  const int32_t i = test_case->input_count;
  if (i == SHOAL_CASE_MAX_INPUTS) return shoal_scan_fail(scan, "too many inputs");
  test_case->limit[i] = 2;
  if (!shoal_scan_type(scan, &test_case->inputs[i])) return false;
  if (shoal_scan_accept(scan, "<")) {
    if (!shoal_scan_int(scan, &test_case->limit[i])) return false;
    if (test_case->limit[i] < 1) return shoal_scan_fail(scan, "a limit is at least 1");
  }
  if (shoal_scan_accept(scan, ">")) {
    if (!shoal_scan_int(scan, &test_case->first[i])) return false;
    if (++test_case->first[i] >= test_case->limit[i]) {
      return shoal_scan_fail(scan, "there is no integer between the limits");
    }
  }
  test_case->positive[i] = shoal_scan_accept(scan, "+");
  ++test_case->input_count;
  return true;
}

shoal_status_t shoal_case_parse(const shoal_op_t *op, const char *text, shoal_arena_t *arena,
                                shoal_case_t *out_case) {
  shoal_scan_t scan;
  shoal_scan_init(text, text, &scan);
  shoal_case_t test_case = {.op = op};
  bool ok = true;
  if (!shoal_scan_peek(&scan, ";") && !shoal_scan_at_end(&scan)) {
    do ok = scan_input(&scan, &test_case);
    while (ok && shoal_scan_accept(&scan, ","));
  }
  ok = ok && shoal_scan_attrs(&scan, ";", "", op, arena, &test_case.attrs);
  if (ok && !shoal_scan_at_end(&scan)) shoal_scan_fail(&scan, "expected ',' or the end");
  SHOAL_RETURN_IF_ERROR(shoal_scan_status(&scan));
  shoal_op_complete(op, test_case.input_count, test_case.inputs, test_case.attrs);
  *out_case = test_case;
  return NULL;
}

// The index besides the range that this input may hold, if the op has one.
static bool find_spare(const shoal_case_t *test_case, int32_t input, int64_t *out_spare) {
  const shoal_op_t *op = test_case->op;  // NULL: only data are wanted
  if (!op || !op->spare) return false;
  shoal_type_t outputs[SHOAL_CASE_MAX_INPUTS];
  shoal_call_t call = {.op = op,
                       .input_count = test_case->input_count,
                       .output_count = shoal_op_outputs(op, test_case->attrs),
                       .inputs = test_case->inputs,
                       .attrs = test_case->attrs};
  if (call.output_count > SHOAL_CASE_MAX_INPUTS) return false;
  shoal_status_t status = shoal_op_infer(&call, outputs);
  shoal_status_free(status);
  call.outputs = outputs;
  return !status && shoal_indices_spare(&call, input, out_spare);
}

void shoal_case_fill(const shoal_case_t *test_case, int32_t input, uint64_t seed,
                     shoal_tensor_t tensor) {
  const int64_t count = shoal_shape_count(&tensor.shape), limit = test_case->limit[input];
  const bool positive = test_case->positive[input];
  int64_t spare;
  const bool spares = find_spare(test_case, input, &spare);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = shoal_philox_word(seed, (uint64_t)input + 1, 0, (uint64_t)i);
    if (shoal_dtype_is_real(tensor.dtype)) {
      const double u = shoal_philox_uniform(word);
      const double value = limit == 1 ? 0.1 + 0.8 * u : positive ? 0.1 + u : 2 * u - 1;
      shoal_dtype_store(tensor.dtype, tensor.data, i, value);
    } else {
      const int64_t from = positive && limit > 1 ? 1 : test_case->first[input];
      const int64_t number = from + word % (limit - from);
      shoal_dtype_store_int(tensor.dtype, tensor.data, i,
                            spares && (word >> 16) % 8 == 1 ? spare : number);
    }
  }
}
