// What an op's gradient or decomposition consists of, without a graph: the record is asked with an
// emitter that only notes which ops it is told to write.
#ifndef SHOAL_OP_DESCRIBE_H_
#define SHOAL_OP_DESCRIBE_H_

#include "shoal/op.h"

// Names of the ops, each once, in the order they are written for the first example that the record
// takes; NULL-terminated. Empty where there is no example, or none that can be written down.
SHOAL_MUST_USE shoal_status_t shoal_op_emits(const shoal_registry_t *registry, const shoal_op_t *op,
                                             bool gradient, shoal_arena_t *arena,
                                             const char *const **out_names);

#endif  // SHOAL_OP_DESCRIBE_H_
