// Queues, events, kernels and errors of the CPU device, in each of its modes.
#include <stdatomic.h>
#include <stdlib.h>

#include "base/time.h"
#include "device/device.h"
#include "device_gate.h"
#include "device_modes.h"
#include "unit/failing.h"

static void test_kernel(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    float a[5] = {1, 2, 3, 4, 5}, b[5] = {10, 20, 30, 40, 50}, out[5] = {0};
    shoal_address_t memory = make_buffer(device, 1024);
    sum_launch_t sum;
    make_sum(5, memory, memory + 64, memory + 128, memory + 192, &sum);
    assert_ok(shoal_queue_upload(queue, a, memory, sizeof a));
    assert_ok(shoal_queue_upload(queue, b, memory + 64, sizeof b));
    assert_ok(shoal_queue_launch(queue, &sum.launch));
    assert_ok(shoal_queue_download(queue, memory + 128, out, sizeof out));
    assert_ok(shoal_queue_wait(queue));
    for (int i = 0; i < 5; ++i) assert_true(out[i] == a[i] + b[i]);
    assert_int_equal(shoal_device_touched(device, memory), 192 + 40);  // the workspace is last

    make_sum(0, 0, 0, 0, 0, &sum);  // nothing, nowhere
    assert_ok(shoal_queue_launch(queue, &sum.launch));
    assert_ok(shoal_queue_upload(queue, NULL, 0, 0));
    assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){0, SHOAL_F32, 0, 1}));
    assert_ok(shoal_queue_wait(queue));
    shoal_queue_free(queue);
    shoal_device_release(device, memory);
  }
}

// Whether the DLPack tensor is the tensor.
static bool same_tensor(const shoal_dlpack_tensor_t *a, const shoal_tensor_t *b) {
  return a->data == b->data && a->device_kind == SHOAL_DLPACK_CPU && a->device_id == 0 &&
         a->rank == 1 && a->shape[0] == b->shape.dims[0] && a->strides[0] == 1 && a->lanes == 1 &&
         a->element_kind == SHOAL_DLPACK_FLOAT && a->element_bits == 32 && a->byte_offset == 0;
}

// Element types by DLPack's codes.
static void test_dlpack_types(void **state) {
  (void)state;
  static const struct {
    uint8_t kind, bits;
  } codes[SHOAL_DTYPE_COUNT] = {
      [SHOAL_F64] = {2, 64},     [SHOAL_F32] = {2, 32},    [SHOAL_BF16] = {4, 16},
      [SHOAL_F16] = {2, 16},     [SHOAL_I64] = {0, 64},    [SHOAL_I32] = {0, 32},
      [SHOAL_U8] = {1, 8},       [SHOAL_BOOL] = {6, 8},    [SHOAL_I8] = {0, 8},
      [SHOAL_F8_E4M3] = {10, 8}, [SHOAL_F8_E5M2] = {12, 8}};
  for (int dtype = 0; dtype < SHOAL_DTYPE_COUNT; ++dtype) {
    double memory[2] = {0};
    const shoal_tensor_t tensor = {memory, (shoal_dtype_t)dtype, SHOAL_SHAPE(2)};
    shoal_dlpack_t *dlpack;
    assert_ok(shoal_tensor_to_dlpack(&tensor, false, shoal_allocator_system(), &dlpack));
    assert_int_equal(dlpack->tensor.element_kind, codes[dtype].kind);
    assert_int_equal(dlpack->tensor.element_bits, codes[dtype].bits);
    dlpack->deleter(dlpack);
  }
}

static const char *provider_kind;  // of the device that the provider is to be called for

static shoal_status_t provide(void *self, const shoal_kernel_call_t *call) {
  ++*(int *)self;
  if (!same_tensor(&call->dlpack_inputs[0], &call->inputs[0]) ||
      !same_tensor(&call->dlpack_inputs[1], &call->inputs[1]) ||
      !same_tensor(&call->dlpack_outputs[0], &call->outputs[0]) || call->device_id != 0 ||
      call->stream || strcmp(call->device_kind, provider_kind) != 0) {
    return SHOAL_ERROR(INTERNAL, "the provider got something else");
  }
  ((float *)call->outputs[0].data)[0] = 100 * ((float *)call->inputs[0].data)[0];
  return call->call->op->kernel ? NULL : SHOAL_ERROR(IO, "the provider failed");
}

static void test_provider_and_predicate(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    shoal_address_t memory = make_buffer(device, 512), flag = make_buffer(device, 1);
    float value = 3, out = 0;
    int calls = 0;
    sum_launch_t sum;
    make_sum(1, memory, memory, memory + 64, memory + 128, &sum);
    sum.launch.provider = provide;
    provider_kind = shoal_device_kind(device);
    sum.launch.provider_self = &calls;
    sum.launch.predicate = &flag;
    for (int on = 0; on < 2; ++on) {
      assert_ok(shoal_queue_upload(queue, &value, memory, 4));
      assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){flag, SHOAL_BOOL, 1, on}));
      assert_ok(shoal_queue_launch(queue, &sum.launch));
      assert_ok(shoal_queue_download(queue, memory + 64, &out, 4));
      assert_ok(shoal_queue_wait(queue));
      assert_int_equal(calls, on);
      assert_true(out == (on ? 300.0f : 0.0f));
    }

    shoal_op_t foreign = sum_op;
    foreign.kernel = NULL;
    sum.launch.call.op = &foreign;
    assert_ok(shoal_queue_launch(queue, &sum.launch));
    assert_error(IO, "the provider failed", shoal_queue_wait(queue));
    sum.launch.provider = NULL;
    assert_error(UNSUPPORTED, "no kernel", shoal_queue_launch(queue, &sum.launch));
    assert_ok(shoal_queue_wait(queue));
    shoal_queue_free(queue);
  }
}

// ---- events ---------------------------------------------------------------------------

static void test_queues_run_concurrently(void **state) {
  (void)state;
  for (int mode = 1; mode < 3; ++mode) {
    shoal_device_t *device = make_device(mode);
    shoal_queue_t *first = make_queue(device), *second = make_queue(device);
    gate_t gate = GATE_CLOSED;
    assert_ok(shoal_queue_call(first, pass_gate, &gate));
    assert_ok(shoal_queue_call(second, open_gate, &gate));
    assert_ok(shoal_queue_wait(first));
    assert_ok(shoal_queue_wait(second));
    shoal_queue_free(first);
    shoal_queue_free(second);
    shoal_device_free(device);
  }
}

static shoal_status_t slow(void *self) {
  (void)self;
  shoal_time_sleep_ns(3000000);  // makes a missing wait show
  return NULL;
}

// A value goes back and forth between two queues; every hop depends on the one before.
static void test_waits_order(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    shoal_queue_t *queues[2] = {make_queue(device), make_queue(device)};
    shoal_event_t *events[2];
    assert_ok(shoal_event_create(device, &events[0]));
    assert_ok(shoal_event_create(device, &events[1]));
    assert_ok(shoal_queue_await(queues[1], events[1]));  // never recorded: does not wait
    shoal_address_t memory = make_buffer(device, 4096);
    sum_launch_t sums[20];
    float one = 1, out = 0;
    assert_ok(shoal_queue_upload(queues[0], &one, memory, 4));
    assert_ok(shoal_queue_record(queues[0], events[0]));
    for (int i = 0; i < 20; ++i) {  // cell i + 1 = 2 * cell i
      const int from = i % 2, to = 1 - from;
      make_sum(1, memory + 64u * (unsigned)i, memory + 64u * (unsigned)i,
               memory + 64u * (unsigned)(i + 1), memory + 3072u + 64u * (unsigned)to, &sums[i]);
      assert_ok(shoal_queue_await(queues[to], events[from]));
      if (i % 5 == 0) assert_ok(shoal_queue_call(queues[to], slow, NULL));
      assert_ok(shoal_queue_launch(queues[to], &sums[i].launch));
      assert_ok(shoal_queue_record(queues[to], events[to]));
    }
    assert_ok(shoal_queue_download(queues[0], memory + 64 * 20, &out, 4));
    assert_ok(shoal_queue_wait(queues[0]));
    assert_ok(shoal_queue_wait(queues[1]));
    assert_true(out == 1048576.0f);
    shoal_queue_free(queues[0]);
    shoal_queue_free(queues[1]);
    shoal_event_free(events[0]);
    shoal_event_free(events[1]);
  }
}

// ---- errors ---------------------------------------------------------------------------

static shoal_status_t fails(void *self) {
  return SHOAL_ERROR(IO, "failure %d", *(int *)self);
}

static shoal_status_t counts(void *self) {
  atomic_fetch_add((_Atomic int *)self, 1);
  return NULL;
}

static shoal_status_t steps(void *self) {
  ++*(int64_t *)self;
  return NULL;
}

static void test_error_propagation(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    shoal_queue_t *bad = make_queue(device), *good = make_queue(device);
    shoal_event_t *event;
    assert_ok(shoal_event_create(device, &event));
    int numbers[2] = {1, 2};
    _Atomic int count = 0;
    assert_ok(shoal_queue_call(bad, fails, &numbers[0]));
    assert_ok(shoal_queue_call(bad, fails, &numbers[1]));
    assert_ok(shoal_queue_call(bad, counts, &count));  // skipped
    assert_ok(shoal_queue_record(bad, event));         // fires all the same
    assert_ok(shoal_queue_await(good, event));
    assert_ok(shoal_queue_call(good, counts, &count));
    assert_ok(shoal_queue_wait(good));
    assert_int_equal(atomic_load(&count), 1);
    assert_error(IO, "failure 1", shoal_queue_wait(bad));
    assert_ok(shoal_queue_wait(bad));  // cleared
    assert_ok(shoal_queue_call(bad, counts, &count));
    assert_ok(shoal_queue_wait(bad));
    assert_int_equal(atomic_load(&count), 2);

    shoal_address_t memory = make_buffer(device, 100);
    float data[64] = {0};
    assert_ok(shoal_queue_upload(bad, data, memory + 90, 20));
    assert_error(INTERNAL, "upload: 20 bytes", shoal_queue_wait(bad));
    assert_ok(shoal_queue_fill(bad, &(shoal_fill_t){12345, SHOAL_F32, 2, 0}));
    assert_error(INTERNAL, "0x3039", shoal_queue_wait(bad));
    sum_launch_t sum;
    make_sum(20, memory, memory, memory + 40, memory, &sum);
    assert_ok(shoal_queue_launch(bad, &sum.launch));
    assert_error(INTERNAL, "output 0 of 'test.sum'", shoal_queue_wait(bad));
    assert_error(INVALID_ARGUMENT, "event", shoal_queue_record(bad, NULL));
    assert_error(INVALID_ARGUMENT, "-1", shoal_device_alloc(device, -1, &memory));
    shoal_queue_free(bad);
    shoal_queue_free(good);
    shoal_event_free(event);
  }
  shoal_device_t *device;
  assert_error(NOT_FOUND, "'cpu'",
               shoal_device_create(&(shoal_device_options_t){.kind = "gpu"}, &device));
}

// ---- memory ---------------------------------------------------------------------------

// With room for a step's commands, nothing is allocated after the first ones, however far the host
// runs ahead.
static void test_no_allocation(void **state) {
  (void)state;
  shoal_failing_t counter = {0};
  shoal_device_options_t options = modes[2];
  options.allocator = shoal_allocator_failing(&counter);
  shoal_device_t *device;
  assert_ok(shoal_device_create(&options, &device));
  shoal_queue_t *queue = make_queue(device);
  shoal_address_t memory = make_buffer(device, 1024);
  sum_launch_t sum;
  make_sum(4, memory, memory + 64, memory + 128, memory + 192, &sum);
  assert_ok(shoal_queue_launch(queue, &sum.launch));
  assert_ok(shoal_queue_reserve(queue, 3001));
  assert_error(INVALID_ARGUMENT, "-1", shoal_queue_reserve(queue, -1));
  const int64_t warm = atomic_load(&counter.calls);
  for (int step = 0; step < 3; ++step) {
    gate_t gate = GATE_CLOSED;
    assert_ok(shoal_queue_call(queue, pass_gate, &gate));  // the worker is held up
    for (int i = 0; i < 3000; ++i) assert_ok(shoal_queue_launch(queue, &sum.launch));
    shoal_status_free(open_gate(&gate));
    assert_ok(shoal_queue_wait(queue));
  }
  assert_ok(shoal_queue_reserve(queue, 10));  // is there
  assert_int_equal(atomic_load(&counter.calls), warm);
  shoal_queue_free(queue);
  shoal_device_free(device);
  assert_int_equal(atomic_load(&counter.live_blocks), 0);
}

// Many more commands than a queue holds, also such that wait for the other queue: the host waits
// for room, and that ends.
static void test_full_queues(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    enum { ROUNDS = 20000 };
    shoal_queue_t *queues[2] = {make_queue(device), make_queue(device)};
    shoal_event_t *events[2];
    assert_ok(shoal_event_create(device, &events[0]));
    assert_ok(shoal_event_create(device, &events[1]));
    int64_t plain = 0;  // in turn from both threads: only the events order it
    for (int i = 0; i < ROUNDS; ++i) {
      assert_ok(shoal_queue_await(queues[i % 2], events[(i + 1) % 2]));
      assert_ok(shoal_queue_call(queues[i % 2], steps, &plain));
      assert_ok(shoal_queue_record(queues[i % 2], events[i % 2]));
      if (i == ROUNDS / 2) assert_ok(shoal_queue_reserve(queues[0], 3000));
    }
    assert_ok(shoal_event_wait(events[(ROUNDS - 1) % 2]));
    assert_int_equal(plain, ROUNDS);
    shoal_event_free(events[0]);  // nothing waits for them any more
    shoal_event_free(events[1]);
    shoal_queue_free(queues[0]);
    shoal_queue_free(queues[1]);
  }
}

static shoal_status_t use_device(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_device_options_t options = modes[2];
  options.allocator = allocator;
  shoal_device_t *device = NULL;
  shoal_queue_t *queue = NULL;
  shoal_event_t *event = NULL;
  shoal_address_t memory = 0;
  sum_launch_t sum;
  shoal_status_t status = shoal_device_create(&options, &device);
  if (!status) status = shoal_device_alloc(device, 256, &memory);
  if (!status) status = shoal_queue_create(device, &queue);
  if (!status) status = shoal_queue_reserve(queue, 5000);
  if (!status) status = shoal_event_create(device, &event);
  if (!status) {
    make_sum(1, memory, memory, memory + 64, memory + 128, &sum);
    status = shoal_queue_launch(queue, &sum.launch);
    if (!status) status = shoal_queue_wait(queue);
  }
  shoal_event_free(event);
  shoal_queue_free(queue);
  shoal_device_free(device);
  return status;
}

static void test_nth_allocation(void **state) {
  (void)state;
  assert_true(check_failing_allocations(use_device, NULL, 0) > 5);
}

// A prepared launch computes and marks as any other; what launching would refuse is refused at
// once.
static void test_prepared(void **state) {
  (void)state;
  shoal_arena_t *arena;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    shoal_address_t memory = make_buffer(device, 256), flag = make_buffer(device, 1);
    const float in[2] = {3, 4};
    float out[2] = {0};
    sum_launch_t sum;
    make_sum(2, memory, memory, memory + 64, memory + 128, &sum);
    sum.launch.predicate = &flag;
    assert_ok(shoal_launch_prepare(device, arena, &sum.launch));
    assert_int_equal(shoal_device_touched(device, memory), 0);
    assert_ok(shoal_queue_upload(queue, in, memory, sizeof in));
    for (int on = 0; on < 2; ++on) {
      assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){flag, SHOAL_BOOL, 1, on}));
      assert_ok(shoal_queue_launch(queue, &sum.launch));
      assert_ok(shoal_queue_wait(queue));
      assert_int_equal(shoal_device_touched(device, memory), on ? 128 + 16 : sizeof in);
    }
    assert_ok(shoal_queue_download(queue, memory + 64, out, sizeof out));
    assert_ok(shoal_queue_wait(queue));
    assert_true(out[0] == 6 && out[1] == 8);
    sum.addresses[1] = memory + 252;
    assert_error(INTERNAL, "input 1 of", shoal_launch_prepare(device, arena, &sum.launch));
    sum.launch.call.op = NULL;
    assert_error(INVALID_ARGUMENT, "needs an op", shoal_launch_prepare(device, arena, &sum.launch));
    shoal_queue_free(queue);
  }
  shoal_arena_free(arena);
}

static void test_target(void **state) {
  (void)state;
  shoal_device_t *device = make_device(0);
  shoal_target_t target = shoal_device_target(device),
                 described = shoal_target_described("a100", 19e12, 2e12, 1 << 30);
  assert_string_equal(target.name, "cpu");
  assert_int_equal(target.alignment, 64);
  assert_true(shoal_target_has_kernel(&target, &sum_op));
  sum_launch_t sum;
  make_sum(10, 0, 0, 0, 0, &sum);
  assert_int_equal(shoal_target_workspace(&target, &sum.launch.call), 80);
  assert_true(described.flops_per_second[SHOAL_BF16] == 38e12);
  assert_true(shoal_target_seconds(&described, &sum.launch.call) > 0);
  shoal_device_free(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dlpack_types),
      cmocka_unit_test(test_kernel),
      cmocka_unit_test(test_prepared),
      cmocka_unit_test(test_provider_and_predicate),
      cmocka_unit_test(test_queues_run_concurrently),
      cmocka_unit_test(test_waits_order),
      cmocka_unit_test(test_error_propagation),
      cmocka_unit_test(test_no_allocation),
      cmocka_unit_test(test_full_queues),
      cmocka_unit_test(test_nth_allocation),
      cmocka_unit_test(test_target),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
