// Element type and shape together: checked, compared, named in messages. Their text is op/text.h's.
#ifndef SHOAL_OP_TYPE_H_
#define SHOAL_OP_TYPE_H_

#include "shoal/op.h"

// A known element type, 0 to SHOAL_MAX_RANK dims, none negative, and bytes that fit 64 bits with
// room to align them and to add up a few.
SHOAL_MUST_USE shoal_status_t shoal_type_check(const shoal_type_t *type);
int64_t shoal_type_bytes(const shoal_type_t *type);  // of a checked type
bool shoal_type_equal(const shoal_type_t *a, const shoal_type_t *b);
// "f32[64, 784]" into the buffer, for messages; returns the buffer. SHOAL_TYPE_SIZE bytes are
// enough.
#define SHOAL_TYPE_SIZE 224
const char *shoal_type_format(const shoal_type_t *type, char *buffer, size_t capacity);

#endif  // SHOAL_OP_TYPE_H_
