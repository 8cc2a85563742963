// What a record's words are made of. An op's gradient and decomposition are looked into without a
// graph: the record is asked with an emitter that only notes which ops it is told to write.
#ifndef SHOAL_OP_DESCRIBE_H_
#define SHOAL_OP_DESCRIBE_H_

#include "shoal/op.h"

// How its typed builder takes an attribute: as an argument, or as a field of the options. Neither:
// places, which speak of parts, and the names of the optional inputs.
bool shoal_attr_is_argument(const shoal_attr_schema_t *attr);
bool shoal_attr_is_option(const shoal_attr_schema_t *attr);

// Names of the ops, each once, in the order they are written for the first example that the record
// takes; NULL-terminated. Empty where there is no example, or none that can be written down.
SHOAL_MUST_USE shoal_status_t shoal_op_emits(const shoal_registry_t *registry, const shoal_op_t *op,
                                             bool gradient, shoal_arena_t *arena,
                                             const char *const **out_names);

#endif  // SHOAL_OP_DESCRIBE_H_
