// How long this rank communicates, and for how much of that its compute queue has no work. The
// queues themselves stamp: the compute queue where it starts to wait and where it goes on, the
// others before and behind what they exchange. Waiting for other ranks in an exchange counts.
//
// The compute queue's idle time up to t is one word, so that other threads read it without a lock:
// while the queue works, twice the idle time so far; while it waits since s, twice (that time - s),
// plus 1. Only that queue's thread writes it.
#include "base/status.h"
#include "base/time.h"
#include "device/device.h"
#include "run/run_impl.h"

static int64_t idle_until(const shoal_run_meter_t *meter, int64_t now) {
  const long long word = atomic_load_explicit(&meter->word, memory_order_acquire);
  const bool waits = word & 1;
  return (word - waits) / 2 + (waits ? now : 0);
}

static shoal_status_t begin_idle(void *self) {
  shoal_run_meter_t *meter = self;
  const int64_t now = shoal_time_ns();
  const long long word = 2 * (idle_until(meter, now) - now) + 1;
  atomic_store_explicit(&meter->word, word, memory_order_release);
  return NULL;
}

static shoal_status_t end_idle(void *self) {
  shoal_run_meter_t *meter = self;
  const long long word = 2 * idle_until(meter, shoal_time_ns());
  atomic_store_explicit(&meter->word, word, memory_order_release);
  return NULL;
}

static shoal_status_t begin_exchange(void *self) {
  shoal_run_meter_queue_t *queue = self;
  queue->begin = shoal_time_ns();
  queue->idle = idle_until(queue->meter, queue->begin);
  return NULL;
}

static shoal_status_t end_exchange(void *self) {
  shoal_run_meter_queue_t *queue = self;
  const int64_t now = shoal_time_ns(), spent = now - queue->begin;
  int64_t exposed = idle_until(queue->meter, now) - queue->idle;
  if (exposed < 0) exposed = 0;  // the word may be a little younger than `now`
  if (exposed > spent) exposed = spent;
  atomic_fetch_add_explicit(&queue->meter->communication, spent, memory_order_relaxed);
  atomic_fetch_add_explicit(&queue->meter->exposed, exposed, memory_order_relaxed);
  return NULL;
}

static bool exchanges(const shoal_action_t *action) {
  return action->bound->instruction->channels && !action->bound->idle;
}

void shoal_run_meter_init(shoal_runner_t *runner) {
  shoal_run_meter_t *meter = &runner->meter;
  atomic_init(&meter->word, 1);  // idle from the clock's beginning: nothing is hidden
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) meter->queues[q].meter = meter;
  for (int64_t o = 0; o < runner->order_count; ++o) {
    const shoal_run_order_t *order = &runner->orders[o];
    for (int64_t c = 0; c < order->call_count; ++c)
      for (int64_t i = 0; i < order->calls[c].action_count; ++i)
        meter->used = meter->used || exchanges(&order->calls[c].actions[i]);
  }
  // Where queues do not run side by side, one that waits would not be seen to.
  meter->compute = -1;
  if (!meter->used || !shoal_device_target(runner->device).overlaps) return;
  const shoal_class_t *rank_class = runner->bound.rank_class;
  for (int32_t q = rank_class->queue_count - 1; q >= 0; --q)
    if (rank_class->queues[q].kind == SHOAL_QUEUE_COMPUTE) meter->compute = q;
}

shoal_status_t shoal_run_meter_pause(shoal_runner_t *runner, int32_t queue) {
  if (queue != runner->meter.compute) return NULL;
  return shoal_queue_call(runner->queues[queue], begin_idle, &runner->meter);
}

shoal_status_t shoal_run_meter_go_on(shoal_runner_t *runner, int32_t queue) {
  if (queue != runner->meter.compute) return NULL;
  return shoal_queue_call(runner->queues[queue], end_idle, &runner->meter);
}

shoal_status_t shoal_run_meter_begin(shoal_runner_t *runner, const shoal_action_t *action) {
  const int32_t queue = action->bound->instruction->queue;
  if (!runner->meter.used || !exchanges(action)) return NULL;
  return shoal_queue_call(runner->queues[queue], begin_exchange, &runner->meter.queues[queue]);
}

shoal_status_t shoal_run_meter_end(shoal_runner_t *runner, const shoal_action_t *action) {
  const int32_t queue = action->bound->instruction->queue;
  if (!runner->meter.used || !exchanges(action)) return NULL;
  return shoal_queue_call(runner->queues[queue], end_exchange, &runner->meter.queues[queue]);
}
