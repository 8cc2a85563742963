// Keys (base/memo.h) of calls and values: instructions whose keys are equal bind alike on every
// rank, so what holds for one of a hundred equal layers holds for all.
#ifndef SHOAL_PROGRAM_KEY_H_
#define SHOAL_PROGRAM_KEY_H_

#include "base/memo.h"
#include "shoal/program.h"

void shoal_key_add_type(shoal_key_t *key, const shoal_type_t *type);
// An op and its attributes.
void shoal_key_add_op(shoal_key_t *key, const shoal_op_t *op, const shoal_attr_value_t *attrs);

#endif  // SHOAL_PROGRAM_KEY_H_
