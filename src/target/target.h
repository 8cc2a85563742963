// Target: the properties of a device that the compiler asks for. It is a plain value, filled in by
// a device (shoal_device_target) or from a description, so that the compiler needs no device.
// Lowering asks for alignment and workspace, which are binding; simulation for rates, which are
// estimates; devices whether there is a kernel.
#ifndef SHOAL_TARGET_TARGET_H_
#define SHOAL_TARGET_TARGET_H_

#include "shoal/op.h"

typedef struct shoal_target {
  char name[SHOAL_NAME_SIZE];
  double flops_per_second[SHOAL_DTYPE_COUNT];  // 0: not computed in this type
  double bytes_per_second;                     // of its memory
  int64_t memory;                              // bytes; 0: not known
  int64_t alignment;                           // of every buffer: a power of two
  bool overlaps;                               // its queues run side by side
  bool blind;                                  // the host has no view of its memory
  const void *self;                            // handed to the functions below
  // Optional. Bytes of scratch this call wants; NULL: what the op's record says.
  int64_t (*workspace)(const void *self, const shoal_call_t *call);
  // Optional. Says whether it can run this op itself. NULL: it can if the record has a reference
  // kernel.
  bool (*has_kernel)(const void *self, const shoal_op_t *op);
} shoal_target_t;

// A plain CPU: reference kernels, 64-byte alignment, nominal rates of one core.
shoal_target_t shoal_target_cpu(void);
// A machine that is only described (a cluster file's device). `flops_per_second` is for f32; f64
// runs at half, 2-byte floats at twice that rate. Runs whatever has a reference kernel.
shoal_target_t shoal_target_described(const char *name, double flops_per_second,
                                      double bytes_per_second, int64_t memory);

// Bytes of scratch of a call; false: no call of this op wants any.
bool shoal_target_wants_workspace(const shoal_target_t *target, const shoal_op_t *op);
int64_t shoal_target_workspace(const shoal_target_t *target, const shoal_call_t *call);
bool shoal_target_has_kernel(const shoal_target_t *target, const shoal_op_t *op);
// Seconds one call takes by the roofline: the longer of computing and moving its bytes.
double shoal_target_seconds(const shoal_target_t *target, const shoal_call_t *call);

#endif  // SHOAL_TARGET_TARGET_H_
