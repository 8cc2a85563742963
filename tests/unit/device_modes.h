// What the tests of devices share: the CPU's modes, a small op of their own, host copies of device
// memory.
#ifndef SHOAL_TESTS_UNIT_DEVICE_MODES_H_
#define SHOAL_TESTS_UNIT_DEVICE_MODES_H_

#include "base/dtype.h"
#include "base/status.h"
#include "shoal/device.h"
#include "unit.h"

static const shoal_device_options_t modes[] = {{.kind = "cpu"},
                                               {.kind = "cpu", .concurrent = true},
                                               {.kind = "cpu", .opaque = true},
                                               {.kind = "cpu", .blind = true}};
enum { CPU_MODES = sizeof modes / sizeof *modes };

// The CPU in each of its modes, then every other kind of device that this build has.
#define FOR_EACH_MODE(device)                                 \
  for (int mode_ = 0; has_mode(mode_); ++mode_)               \
    for (shoal_device_t *device = make_device(mode_); device; \
         shoal_device_free(device), device = NULL)

static inline const char *other_kind(int mode) {
  int64_t index = 0;
  for (int other = CPU_MODES; shoal_device_kind_name(index); ++index) {
    if (strcmp(shoal_device_kind_name(index), "cpu") == 0) continue;
    if (other++ == mode) break;
  }
  return shoal_device_kind_name(index);
}

static inline bool has_mode(int mode) {
  return mode < CPU_MODES || other_kind(mode);
}

static inline shoal_device_t *make_device(int mode) {
  shoal_device_t *device = NULL;
  const shoal_device_options_t other = {.kind = mode < CPU_MODES ? NULL : other_kind(mode)};
  assert_ok(shoal_device_create(mode < CPU_MODES ? &modes[mode] : &other, &device));
  return device;
}

static inline shoal_queue_t *make_queue(shoal_device_t *device) {
  shoal_queue_t *queue = NULL;
  assert_ok(shoal_queue_create(device, &queue));
  return queue;
}

static inline shoal_address_t make_buffer(shoal_device_t *device, int64_t bytes) {
  shoal_address_t address = 0;
  assert_ok(shoal_device_alloc(device, bytes, &address));
  assert_true(address != 0);
  return address;
}

// out = a + b, element by element, f32; wants 8 bytes of workspace per element and uses the last of
// them.
static shoal_status_t sum_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

static int64_t sum_workspace(const shoal_call_t *call) {
  return 8 * shoal_shape_count(&call->outputs[0].shape);
}

static shoal_status_t sum_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                 const shoal_tensor_t *outputs, void *workspace) {
  const int64_t count = shoal_shape_count(&outputs[0].shape);
  (void)call;
  double *scratch = workspace;
  for (int64_t i = 0; i < count; ++i) {
    scratch[i] = (double)((float *)inputs[0].data)[i] + ((float *)inputs[1].data)[i];
    ((float *)outputs[0].data)[i] = (float)scratch[i];
  }
  return NULL;
}

static const shoal_op_t sum_op = {.name = "test.sum",
                                  .infer = sum_infer,
                                  .input_count = 2,
                                  .output_count = 1,
                                  .workspace = sum_workspace,
                                  .kernel = sum_kernel};

typedef struct sum_launch {
  shoal_launch_t launch;
  shoal_type_t types[3];
  shoal_address_t addresses[3];
} sum_launch_t;

static inline void make_sum(int64_t count, shoal_address_t a, shoal_address_t b,
                            shoal_address_t out, shoal_address_t workspace, sum_launch_t *s) {
  *s = (sum_launch_t){.addresses = {a, b, out}};
  for (int i = 0; i < 3; ++i) s->types[i] = (shoal_type_t){SHOAL_F32, SHOAL_SHAPE(count)};
  s->launch = (shoal_launch_t){.call = {.op = &sum_op,
                                        .input_count = 2,
                                        .output_count = 1,
                                        .inputs = s->types,
                                        .outputs = s->types + 2},
                               .inputs = s->addresses,
                               .outputs = s->addresses + 2,
                               .workspace = workspace};
}

#endif  // SHOAL_TESTS_UNIT_DEVICE_MODES_H_
