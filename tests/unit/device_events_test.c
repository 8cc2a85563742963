// What the host sees of queues without joining them: events it waits for or asks about, whether a
// queue has failed, and the function that is called at the first error.
#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"
#include "device_gate.h"
#include "device_modes.h"

static shoal_event_t *make_event(shoal_device_t *device) {
  shoal_event_t *event = NULL;
  assert_ok(shoal_event_create(device, &event));
  return event;
}

// Whether the host runs the work itself when it enqueues it: then nothing can be held up.
static bool is_immediate(const shoal_device_t *device) {
  return !shoal_device_target(device).overlaps;
}

static shoal_status_t counts(void *self) {
  atomic_fetch_add((_Atomic int *)self, 1);
  return NULL;
}

// The host waits for the first of two pieces of work while the second is held up behind it.
static void test_host_waits_for_an_event(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    const bool immediate = is_immediate(device);
    shoal_queue_t *queue = make_queue(device);
    shoal_event_t *first = make_event(device), *second = make_event(device);
    assert_true(shoal_event_done(first));  // never recorded
    assert_ok(shoal_event_wait(first));
    for (int round = 0; round < 50; ++round) {  // an event is recorded again and again
      _Atomic int count = 0;
      gate_t before = GATE_CLOSED, behind = GATE_CLOSED;
      // Held up by the host only where the host is not the one that works.
      before.open = behind.open = immediate;
      assert_ok(shoal_queue_call(queue, pass_gate, &before));
      assert_ok(shoal_queue_call(queue, counts, &count));
      assert_ok(shoal_queue_record(queue, first));
      assert_ok(shoal_queue_call(queue, pass_gate, &behind));
      assert_ok(shoal_queue_record(queue, second));
      assert_int_equal(shoal_event_done(first), immediate);
      shoal_status_free(open_gate(&before));
      assert_ok(shoal_event_wait(first));
      assert_int_equal(atomic_load(&count), 1);
      assert_true(shoal_event_done(first));
      assert_int_equal(shoal_event_done(second), immediate);
      shoal_status_free(open_gate(&behind));
      assert_ok(shoal_event_wait(second));
      assert_true(shoal_event_done(second));
    }
    assert_ok(shoal_queue_wait(queue));
    shoal_queue_free(queue);
    shoal_event_free(first);
    shoal_event_free(second);
  }
}

// ---- errors ---------------------------------------------------------------------------

typedef struct seen {
  shoal_queue_t *queue;
  shoal_event_t *after;
  _Atomic int calls;
  bool failed, fired;
  pthread_t worker, caller;
  char message[64];
} seen_t;

static shoal_status_t fails(void *self) {
  seen_t *seen = self;
  seen->worker = pthread_self();
  return SHOAL_ERROR(IO, "failure %d", atomic_load(&seen->calls));
}

static void on_error(void *self, shoal_status_t status) {
  seen_t *seen = self;
  snprintf(seen->message, sizeof seen->message, "%s", shoal_status_message(status));
  seen->caller = pthread_self();
  seen->failed = shoal_queue_failed(seen->queue);
  seen->fired = shoal_event_done(seen->after);
  atomic_fetch_add(&seen->calls, 1);
}

static void test_error_function(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    const bool immediate = is_immediate(device);
    seen_t seen = {.queue = make_queue(device), .after = make_event(device)};
    shoal_queue_on_error(seen.queue, on_error, &seen);
    _Atomic int count = 0;
    for (int round = 0; round < 20; ++round) {
      gate_t gate = GATE_CLOSED;
      gate.open = immediate;
      seen.fired = false;
      assert_ok(shoal_queue_call(seen.queue, pass_gate, &gate));
      assert_false(shoal_queue_failed(seen.queue));
      assert_ok(shoal_queue_call(seen.queue, fails, &seen));
      assert_ok(shoal_queue_call(seen.queue, fails, &seen));    // skipped
      assert_ok(shoal_queue_call(seen.queue, counts, &count));  // skipped
      assert_ok(shoal_queue_record(seen.queue, seen.after));
      shoal_status_free(open_gate(&gate));
      assert_ok(shoal_event_wait(seen.after));  // fires all the same, and nobody asks the queue
      assert_int_equal(atomic_load(&seen.calls), round + 1);
      assert_true(seen.failed);
      assert_true(pthread_equal(seen.worker, seen.caller));
      if (!immediate) assert_false(seen.fired);  // the function comes before the event
      assert_true(shoal_queue_failed(seen.queue));
      char message[64];
      snprintf(message, sizeof message, "failure %d", round);
      assert_string_equal(seen.message, message);
      assert_error(IO, message, shoal_queue_wait(seen.queue));
      assert_false(shoal_queue_failed(seen.queue));  // cleared
      assert_ok(shoal_queue_wait(seen.queue));
    }
    assert_int_equal(atomic_load(&count), 0);
    shoal_queue_on_error(seen.queue, NULL, NULL);
    assert_ok(shoal_queue_call(seen.queue, fails, &seen));
    assert_error(IO, "failure 20", shoal_queue_wait(seen.queue));
    assert_int_equal(atomic_load(&seen.calls), 20);
    shoal_queue_free(seen.queue);
    shoal_event_free(seen.after);
  }
}

// An error that nobody has asked for is freed with the queue.
static void test_error_left(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    seen_t seen = {.queue = make_queue(device), .after = make_event(device)};
    shoal_queue_on_error(seen.queue, on_error, &seen);
    assert_ok(shoal_queue_call(seen.queue, fails, &seen));
    shoal_queue_free(seen.queue);
    assert_int_equal(atomic_load(&seen.calls), 1);
    shoal_event_free(seen.after);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_host_waits_for_an_event),
      cmocka_unit_test(test_error_function),
      cmocka_unit_test(test_error_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
