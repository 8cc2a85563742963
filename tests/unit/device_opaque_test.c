// Opaque mode: the host cannot read device memory, queue work can, and what was touched is known
// exactly.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_modes.h"

// Reads or writes *address in a child; true when that killed it.
static bool host_access_dies(shoal_address_t address, bool write_it) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would print a report
    volatile uint8_t *memory = (volatile uint8_t *)(uintptr_t)address;
    if (write_it) {
      *memory = 1;
      _exit(0);
    }
    _exit(*memory & 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void test_host_access_segfaults(void **state) {
  (void)state;
  shoal_device_t *device = make_device(2);
  shoal_address_t memory = make_buffer(device, 10000);
  assert_true(host_access_dies(memory, false));
  assert_true(host_access_dies(memory + 9999, false));
  assert_true(host_access_dies(memory, true));
  shoal_device_free(device);
  device = make_device(0);
  memory = make_buffer(device, 10000);
  assert_false(host_access_dies(memory, true));
  shoal_device_free(device);
}

typedef struct look {
  shoal_device_t *device, *other;
  shoal_address_t address;
  void *inside, *beyond, *of_other;
} look_t;

static shoal_status_t look(void *self) {
  look_t *l = self;
  l->inside = shoal_device_view(l->device, l->address + 100, 50);
  l->beyond = shoal_device_view(l->device, l->address + 200, 4097);
  l->of_other = shoal_device_view(l->other, l->address, 1);
  if (l->inside) memset(l->inside, 42, 50);
  return NULL;
}

static void test_view(void **state) {
  (void)state;
  shoal_device_t *device = make_device(2), *other = make_device(2);
  shoal_queue_t *queue = make_queue(device);
  look_t l = {.device = device, .other = other, .address = make_buffer(device, 4096)};
  assert_null(shoal_device_view(device, l.address, 1));  // the host
  assert_ok(shoal_queue_call(queue, look, &l));
  uint8_t out[52];
  assert_ok(shoal_queue_download(queue, l.address + 99, out, 52));
  assert_ok(shoal_queue_wait(queue));
  assert_non_null(l.inside);
  assert_true((uintptr_t)l.inside != (uintptr_t)(l.address + 100));
  assert_null(l.beyond);
  assert_null(l.of_other);
  assert_int_equal(out[0], 0);
  assert_int_equal(out[1], 42);
  assert_int_equal(out[50], 42);
  assert_int_equal(out[51], 0);
  shoal_queue_free(queue);
  shoal_device_free(device);
  shoal_device_free(other);
}

// The host has no view at all; work that the device does itself goes on (device_*_test.c run in
// this mode too).
static void test_blind(void **state) {
  (void)state;
  for (int by_environment = 0; by_environment < 2; ++by_environment) {
    if (by_environment) setenv("SHOAL_DEVICE_OPAQUE", "blind", 1);
    shoal_device_t *device = make_device(by_environment ? 0 : 3);
    unsetenv("SHOAL_DEVICE_OPAQUE");
    shoal_queue_t *queue = make_queue(device);
    look_t l = {.device = device, .other = device, .address = make_buffer(device, 4096)};
    assert_true(host_access_dies(l.address, false));
    assert_null(shoal_device_view(device, l.address, 1));
    assert_ok(shoal_queue_call(queue, look, &l));
    assert_ok(shoal_queue_wait(queue));
    assert_null(l.inside);
    assert_null(l.of_other);
    assert_int_equal(shoal_device_touched(device, l.address), 0);
    uint8_t in[3] = {1, 2, 3}, out[3] = {0};
    assert_ok(shoal_queue_upload(queue, in, l.address + 7, 3));
    assert_ok(shoal_queue_download(queue, l.address + 7, out, 3));
    assert_ok(shoal_queue_wait(queue));
    assert_memory_equal(in, out, 3);
    shoal_queue_free(queue);
    shoal_device_free(device);
  }
}

static void test_touched(void **state) {
  (void)state;
  shoal_device_t *device = make_device(2);
  shoal_queue_t *queue = make_queue(device);
  shoal_address_t memory = make_buffer(device, 100000), other = make_buffer(device, 100);
  assert_int_equal(shoal_device_touched(device, memory), 0);
  uint8_t data[64] = {0};
  assert_ok(shoal_queue_upload(queue, data, memory + 10, 5));
  assert_ok(shoal_queue_wait(queue));
  assert_int_equal(shoal_device_touched(device, memory), 15);
  assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){memory + 64, SHOAL_F64, 3, 1}));
  assert_ok(shoal_queue_wait(queue));
  assert_int_equal(shoal_device_touched(device, memory), 88);
  assert_ok(shoal_queue_upload(queue, data, memory, 5));  // lower: stays
  // A strided copy: rows of 2 at 0, 10, 20 elements from 50 on; the last byte is its last
  // element's.
  const shoal_piece_t piece = {
      .rank = 2, .size = {3, 2}, .src_stride = {2, 1}, .dst_offset = 50, .dst_stride = {10, 1}};
  shoal_copy_t copy = {
      .src = other, .dst = memory, .dtype = SHOAL_F32, .piece_count = 1, .pieces = &piece};
  assert_ok(shoal_queue_copy(queue, &copy));
  assert_ok(shoal_queue_wait(queue));
  assert_int_equal(shoal_device_touched(device, memory), (50 + 20 + 2) * 4);
  assert_int_equal(shoal_device_touched(device, other), 24);
  assert_int_equal(shoal_device_touched(device, memory + 1), -1);  // no allocation starts there
  shoal_queue_free(queue);
  shoal_device_free(device);
}

static void test_environment(void **state) {
  (void)state;
  setenv("SHOAL_DEVICE_OPAQUE", "1", 1);
  shoal_device_t *device = make_device(0);
  unsetenv("SHOAL_DEVICE_OPAQUE");
  shoal_address_t memory = make_buffer(device, 0), more = make_buffer(device, 0);
  assert_true(memory != more);
  assert_true(host_access_dies(memory, false));
  assert_null(shoal_device_view(device, memory, 1));
  shoal_device_free(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_host_access_segfaults),
      cmocka_unit_test(test_view),
      cmocka_unit_test(test_blind),
      cmocka_unit_test(test_touched),
      cmocka_unit_test(test_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
