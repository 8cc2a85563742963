// Which operands a call has. What varies from call to call is written in attributes, so that texts,
// hashes and keys of calls differ by themselves; only the functions here look into them.
#include "op/operands.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "shoal/options.h"

// ---- outputs ---------------------------------------------------------------------------

int32_t shoal_op_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  if (!op->output_number) return op->output_count;
  const int32_t number = op->output_number(op, attrs);
  return number < 1 ? 1 : number > SHOAL_MAX_OUTPUTS ? SHOAL_MAX_OUTPUTS : number;
}

shoal_operand_name_t shoal_output_name(const shoal_op_t *op, int32_t output_count, int32_t output) {
  const int32_t last = op->output_count - 1;
  const bool repeats = output_count > op->output_count && output >= last;
  return (shoal_operand_name_t){op->outputs[output < last ? output : last],
                                repeats ? output - last : -1};
}

// ---- inputs ----------------------------------------------------------------------------

// The value of the attribute "with"; "" where nothing is optional.
static const char *with(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  for (int32_t i = 0; op->optional && i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_STRING && strcmp(op->attrs[i].name, SHOAL_WITH) == 0) {
      return attrs[i].s ? attrs[i].s : "";
    }
  }
  return "";
}

// The length of the first name of a list with commas; *list moves behind it.
static size_t next_name(const char **list) {
  const size_t length = strcspn(*list, ",");
  *list += length + ((*list)[length] == ',');
  return length;
}

static bool is_name(const char *text, size_t length, const char *name) {
  return strlen(name) == length && memcmp(text, name, length) == 0;
}

int32_t shoal_op_given(const shoal_op_t *op, const shoal_attr_value_t *attrs, int32_t name) {
  int32_t number = op->input_count - op->optional;
  if (name < number) return name;
  for (const char *list = with(op, attrs), *at = list; *list; at = list, ++number) {
    if (is_name(at, next_name(&list), op->inputs[name])) return number;
  }
  return -1;
}

int32_t shoal_op_named(const shoal_op_t *op, const shoal_attr_value_t *attrs, int32_t input) {
  for (int32_t name = op->input_count - op->optional; name < op->input_count; ++name) {
    if (shoal_op_given(op, attrs, name) == input) return name;
  }
  return input < op->input_count ? input : op->input_count - 1;
}

shoal_operand_name_t shoal_input_name(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                                      int32_t input) {
  const int32_t last = op->input_count - 1;
  if (last < 0) return (shoal_operand_name_t){"?", -1};
  return (shoal_operand_name_t){op->inputs[shoal_op_named(op, attrs, input)],
                                op->variadic && input >= last ? input - last : -1};
}

int32_t shoal_attr_operand(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                           int32_t input_count, int32_t attr) {
  const int32_t operand = op->attrs[attr].operand;
  if (operand < 0) {
    const int32_t output = SHOAL_OUTPUT(operand);
    return output < shoal_op_outputs(op, attrs) ? input_count + output : -1;
  }
  const int32_t input = shoal_op_given(op, attrs, operand);
  return input < input_count ? input : -1;
}

// ---- checking --------------------------------------------------------------------------

// The names in "with", each an optional input behind the one before it.
static shoal_status_t check_with(const shoal_op_t *op, const char *list, int32_t *out_count) {
  const int32_t required = op->input_count - op->optional;
  int32_t next = required;
  for (const char *at = list; *list; at = list) {
    const size_t length = next_name(&list);
    int32_t name = required;
    while (name < op->input_count && !is_name(at, length, op->inputs[name])) ++name;
    if (name == op->input_count) {
      char word[64] = {0};
      memcpy(word, at, length < sizeof word ? length : sizeof word - 1);
      shoal_hint_t hint;
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT,
          shoal_did_you_mean(word, op->inputs + required, op->optional,
                             "`shoal ops NAME` lists the optional inputs of an op", &hint),
          "%s: 'with' names '%s', which is no optional input", op->name, word);
    }
    if (name < next) {
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT, "inputs are given, and named, in the order of `shoal ops NAME`",
          "%s: 'with' names '%s' twice, or out of order", op->name, op->inputs[name]);
    }
    next = name + 1;
    ++*out_count;
  }
  return NULL;
}

shoal_status_t shoal_op_check_inputs(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                                     int32_t input_count) {
  int32_t count = op->input_count - op->optional;
  const char *list = with(op, attrs);
  if (*list) SHOAL_RETURN_IF_ERROR(check_with(op, list, &count));
  if (op->variadic ? input_count >= count : input_count == count) return NULL;
  shoal_hint_t hint = {""};
  for (int32_t i = 0, used = 0; i < op->input_count && used < (int32_t)sizeof hint.text; ++i) {
    used += snprintf(hint.text + used, sizeof hint.text - (size_t)used, "%s%s%s",
                     i == 0 ? "its inputs: " : ", ", op->inputs[i],
                     i < op->input_count - op->optional ? "" : " (optional, named in 'with')");
  }
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint.text, "%s%s%s%s takes %s%d input%s, not %d",
                          op->name, *list ? " with \"" : "", list, *list ? "\"" : "",
                          op->variadic ? "at least " : "", count, count == 1 ? "" : "s",
                          input_count);
}
