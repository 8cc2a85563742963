// Which operands a call has: what its attributes say of the record's optional inputs and of the
// number of its outputs. shoal_op_outputs, _given and _named (op.h) are here too.
#ifndef SHOAL_OP_OPERANDS_H_
#define SHOAL_OP_OPERANDS_H_

#include "shoal/op.h"

#define SHOAL_WITH "with"  // the attribute that names the optional inputs that are given

// Says whether a call with these attributes may have so many inputs, and whether "with" names
// optional inputs, in the record's order.
SHOAL_MUST_USE shoal_status_t shoal_op_check_inputs(const shoal_op_t *op,
                                                    const shoal_attr_value_t *attrs,
                                                    int32_t input_count);
// The operand that attribute `attr` speaks of, inputs before outputs; -1: it is not there.
int32_t shoal_attr_operand(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                           int32_t input_count, int32_t attr);

// An operand's name is one of the record's. The last one repeats, and is numbered from 0, where a
// call has more operands than the record has names (outputs), or may have (variadic inputs).
typedef struct shoal_operand_name {
  const char *name;
  int32_t number;  // -1: it does not repeat
} shoal_operand_name_t;
shoal_operand_name_t shoal_input_name(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                                      int32_t input);
shoal_operand_name_t shoal_output_name(const shoal_op_t *op, int32_t output_count, int32_t output);

#endif  // SHOAL_OP_OPERANDS_H_
