// What graph/ implements so that gradients and decompositions can write nodes without including
// graph/.
#ifndef SHOAL_OP_EMITTER_H_
#define SHOAL_OP_EMITTER_H_

#include "shoal/op.h"

typedef struct shoal_emitter_ops {
  void (*emit)(shoal_emitter_t *emitter, const char *op, int32_t input_count,
               const shoal_ref_t *inputs, int32_t attr_count, const shoal_attr_t *attrs,
               int32_t output_count, shoal_ref_t *out_outputs);
  shoal_type_t (*type)(shoal_emitter_t *emitter, shoal_ref_t ref);
  void (*fail)(shoal_emitter_t *emitter, shoal_status_t status);
} shoal_emitter_ops_t;

struct shoal_emitter {
  const shoal_emitter_ops_t *ops;
  void *self;
};

#endif  // SHOAL_OP_EMITTER_H_
