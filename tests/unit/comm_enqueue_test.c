// Communication on a device's queue, in all three ways: the same bits as on the host, in the order
// of the queue, without an allocation; posted messages are waited for before their memory is used
// again, and not before; reports say what is enqueued, runs and is done.
// links: launch
#include <stdatomic.h>

#include "base/dtype.h"
#include "base/failing.h"
#include "base/time.h"
#include "comm_throttled.h"
#include "device_blind.h"

typedef struct job {
  shoal_work_way_t way;
  shoal_failing_t *counter;
  _Atomic int stage;
} job_t;

// ---- collectives ----------------------------------------------------------------------

enum { PART = 7, MOST = 64 };  // elements of the largest part; bytes enough for four of them

static void fill(shoal_dtype_t dtype, int32_t rank, int64_t count, void *data) {
  for (int64_t i = 0; i < count; ++i) {
    const double value = 1 + rank * 0.37 + (double)i * 0.011;
    shoal_dtype_store(dtype, data, i, shoal_dtype_is_float(dtype) ? value : 5 + rank + (double)i);
  }
}

static shoal_collective_t collective_of(shoal_collective_kind_t kind, shoal_dtype_t dtype,
                                        int32_t root, int64_t *counts, int32_t n, int32_t me,
                                        int64_t *others) {
  shoal_collective_t c = {.kind = kind, .dtype = dtype, .root = root};
  const shoal_collective_facts_t *facts = &shoal_collective_facts[kind];
  for (int32_t i = 0; i < n; ++i) counts[i] = i == 1 ? 0 : PART - i;
  if (facts->sends == SHOAL_HOLDS_COUNT || facts->receives == SHOAL_HOLDS_COUNT) c.count = PART;
  if (facts->sends == SHOAL_HOLDS_PARTS) c.send_counts = counts;
  if (facts->receives == SHOAL_HOLDS_PARTS) c.recv_counts = counts;
  if (shoal_collective_is_pairwise(kind)) {  // rank i sends counts[i] to each
    for (int32_t i = 0; i < n; ++i) others[i] = counts[me];
    c.send_counts = others;
  }
  return c;
}

static shoal_status_t run_kind(shoal_world_t *world, shoal_device_t *device, shoal_queue_t *queue,
                               shoal_group_t *group, shoal_collective_t c, bool in_place) {
  const int32_t me = shoal_world_rank(world);
  const int64_t element = (int64_t)shoal_dtype_size(c.dtype);
  const int64_t sent = shoal_collective_sent(group, &c) * element;
  const int64_t received = shoal_collective_received(group, &c) * element;
  double send[MOST] = {0}, want[MOST], got[MOST];
  memset(want, 0x55, sizeof want);  // what is not received stays
  memset(got, 0x55, sizeof got);
  const bool broadcast = c.kind == SHOAL_COLLECTIVE_BROADCAST;
  in_place = in_place && sent == received && !shoal_collective_is_pairwise(c.kind);
  fill(c.dtype, me, sent / element, in_place || broadcast ? want : send);
  if (broadcast && sent > 0) memcpy(send, want, (size_t)sent);
  if (in_place) memcpy(got, want, (size_t)sent);
  c.send = in_place || broadcast ? want : send;
  c.recv = want;
  SHOAL_RETURN_IF_ERROR(shoal_collective_run(group, &c));
  shoal_address_t memory;
  SHOAL_RETURN_IF_ERROR(shoal_device_alloc(device, 2 * sizeof got, &memory));
  shoal_work_t work = {.world = world,
                       .group = group,
                       .collective = c,
                       .send = in_place ? memory + sizeof got : memory,
                       .recv = memory + sizeof got};
  if (broadcast) work.send = work.recv;
  work.collective.send = work.collective.recv = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_work_prepare(device, &work));
  char *bounce = malloc((size_t)work.bounce_bytes + 1);
  work.bounce = bounce;
  SHOAL_RETURN_IF_ERROR(shoal_queue_upload(queue, got, memory + sizeof got, sizeof got));
  if (!in_place) SHOAL_RETURN_IF_ERROR(shoal_queue_upload(queue, send, work.send, sizeof send));
  SHOAL_RETURN_IF_ERROR(shoal_work_enqueue(&work, queue));
  SHOAL_RETURN_IF_ERROR(shoal_queue_download(queue, memory + sizeof got, got, sizeof got));
  SHOAL_RETURN_IF_ERROR(shoal_queue_wait(queue));
  const bool takes = received > 0 || in_place;
  if (takes) CHECK(memcmp(got, want, (size_t)received) == 0, "other bits than on the host");
  shoal_work_deinit(&work);
  shoal_device_release(device, memory);
  free(bounce);
  return NULL;
}

static shoal_status_t collectives(shoal_world_t *world, void *self) {
  const job_t *job = self;
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  static const shoal_dtype_t dtypes[] = {SHOAL_F32, SHOAL_BF16, SHOAL_I64};
  shoal_device_t *device;
  shoal_queue_t *queue;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(make_way(world, job->way, (shoal_allocator_t){0}, &device));
  SHOAL_RETURN_IF_ERROR(shoal_queue_create(device, &queue));
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  for (int kind = 0; kind < SHOAL_COLLECTIVE_COUNT; ++kind) {
    for (int d = 0; d < 3; ++d) {
      for (int in_place = 0; in_place < 2; ++in_place) {
        int64_t counts[MAX_RANKS], others[MAX_RANKS];
        const shoal_collective_t c =
            collective_of((shoal_collective_kind_t)kind,
                          kind == SHOAL_COLLECTIVE_BROADCAST ? SHOAL_U8 : dtypes[d], (d + 1) % n,
                          counts, n, me, others);
        SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(
            run_kind(world, device, queue, group, c, in_place), "%s, %s of %s%s",
            way_names[job->way], shoal_collective_name(c.kind), shoal_dtype_name(c.dtype),
            in_place ? ", in place" : ""));
      }
    }
  }
  shoal_group_free(group);
  shoal_queue_free(queue);
  shoal_device_free(device);
  restore_world(world);
  return NULL;
}

// ---- messages -------------------------------------------------------------------------

// A work that sends to the next rank and receives from the one before, on device memory.
typedef struct ring {
  shoal_work_t work;
  shoal_message_t send, recv;
  shoal_address_t send_at, recv_at;
} ring_t;

static shoal_status_t make_ring(shoal_world_t *world, shoal_device_t *device, shoal_lane_t *lane,
                                int64_t bytes, shoal_address_t memory, ring_t *ring) {
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  *ring = (ring_t){.send = {(me + 1) % n, 9, bytes, NULL},
                   .recv = {(me + n - 1) % n, 9, bytes, NULL},
                   .send_at = memory,
                   .recv_at = memory + (shoal_address_t)bytes};
  ring->work = (shoal_work_t){.world = world,
                              .lane = lane,
                              .send_count = 1,
                              .recv_count = 1,
                              .sends = &ring->send,
                              .recvs = &ring->recv,
                              .send_at = &ring->send_at,
                              .recv_at = &ring->recv_at};
  SHOAL_RETURN_IF_ERROR(shoal_work_prepare(device, &ring->work));
  ring->work.bounce = malloc((size_t)ring->work.bounce_bytes + 1);
  return NULL;
}

// Two lanes on two queues, which ranks use in opposite orders, each message enqueued behind the
// work that makes it. Nothing is allocated once warm.
enum { RING_ROUNDS = 12 };
static shoal_status_t rings(shoal_world_t *world, void *self) {
  const job_t *job = self;
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  const int64_t bytes = 300000;
  shoal_device_t *device;
  shoal_queue_t *queues[2];
  shoal_lane_t *lanes[2];
  shoal_address_t memory[2];
  ring_t ring[2];
  int32_t *got = malloc(2 * RING_ROUNDS * sizeof *got);
  SHOAL_RETURN_IF_ERROR(make_way(world, job->way, shoal_allocator_failing(job->counter), &device));
  for (int i = 0; i < 2; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, i ? "b" : "a", &lanes[i]));
    SHOAL_RETURN_IF_ERROR(shoal_queue_create(device, &queues[i]));
    SHOAL_RETURN_IF_ERROR(shoal_device_alloc(device, 2 * bytes, &memory[i]));
    SHOAL_RETURN_IF_ERROR(make_ring(world, device, lanes[i], bytes, memory[i], &ring[i]));
  }
  int64_t allocated = 0;
  for (int round = 0; round < RING_ROUNDS; ++round) {
    if (round == 4) {  // warm on all ranks
      for (int i = 0; i < 2; ++i) SHOAL_RETURN_IF_ERROR(shoal_queue_wait(queues[i]));
      SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
      allocated = atomic_load(&job->counter->calls);
      SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
    }
    for (int k = 0; k < 2; ++k) {
      const int i = me % 2 ? 1 - k : k;
      const int value = 1000 * i + 100 * me + round;
      SHOAL_RETURN_IF_ERROR(
          shoal_queue_fill(queues[i], &(shoal_fill_t){memory[i], SHOAL_I32, bytes / 4, value}));
      SHOAL_RETURN_IF_ERROR(shoal_work_enqueue(&ring[i].work, queues[i]));
      SHOAL_RETURN_IF_ERROR(shoal_queue_download(
          queues[i], memory[i] + 2 * (shoal_address_t)bytes - 4, &got[2 * round + i], 4));
    }
  }
  for (int i = 0; i < 2; ++i) SHOAL_RETURN_IF_ERROR(shoal_queue_wait(queues[i]));
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  const int64_t more = atomic_load(&job->counter->calls) - allocated;
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  CHECK(more == 0, "%lld allocations in the steady state", (long long)more);
  for (int k = 0; k < 2 * RING_ROUNDS; ++k) {
    const int want = 1000 * (k % 2) + 100 * ((me + n - 1) % n) + k / 2;
    CHECK(got[k] == want, "round %d of lane %d got %d, not %d", k / 2, k % 2, got[k], want);
  }
  for (int i = 0; i < 2; ++i) {
    shoal_work_deinit(&ring[i].work);
    free(ring[i].work.bounce);
    shoal_device_release(device, memory[i]);
    shoal_queue_free(queues[i]);
    shoal_lane_free(lanes[i]);
  }
  shoal_device_free(device);
  free(got);
  restore_world(world);
  return NULL;
}

// ---- posted ---------------------------------------------------------------------------

static shoal_status_t wait_for_stage(job_t *job, int stage) {
  const int64_t end = shoal_time_ns() + INT64_C(60000000000);
  while (atomic_load(&job->stage) < stage) {
    CHECK(shoal_time_ns() < end, "stage %d did not come", stage);
    shoal_time_sleep_ns(100000);
  }
  return NULL;
}

// Rank 0 posts a message, more than fits on the way: its queue goes on though rank 1 receives
// nothing yet. Then it posts four more from the same memory.
enum { POSTS = 5, POST_BYTES = 3 << 20 };
static shoal_status_t post(shoal_world_t *world, job_t *job, shoal_device_t *device,
                           shoal_lane_t *lane) {
  shoal_queue_t *queue;
  shoal_event_t *event;
  shoal_address_t memory;
  SHOAL_RETURN_IF_ERROR(shoal_queue_create(device, &queue));
  SHOAL_RETURN_IF_ERROR(shoal_event_create(device, &event));
  SHOAL_RETURN_IF_ERROR(shoal_device_alloc(device, POST_BYTES, &memory));
  shoal_message_t message = {1, 3, POST_BYTES, NULL};
  shoal_work_t work = {.world = world,
                       .lane = lane,
                       .send_count = 1,
                       .sends = &message,
                       .send_at = &memory,
                       .posts = true};
  SHOAL_RETURN_IF_ERROR(shoal_work_prepare(device, &work));
  work.bounce = malloc((size_t)work.bounce_bytes + 1);
  for (int i = 0; i < POSTS; ++i) {
    SHOAL_RETURN_IF_ERROR(
        shoal_queue_fill(queue, &(shoal_fill_t){memory, SHOAL_I32, POST_BYTES / 4, 70 + i}));
    SHOAL_RETURN_IF_ERROR(shoal_work_enqueue(&work, queue));
    if (i > 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_queue_record(queue, event));
    SHOAL_RETURN_IF_ERROR(shoal_event_wait(event));  // nobody has received
    // Where it is viewed, the message leaves from the device's memory itself.
    if (work.way == SHOAL_WORK_VIEWED) break;
  }
  atomic_store(&job->stage, 1);
  SHOAL_RETURN_IF_ERROR(shoal_queue_wait(queue));
  SHOAL_RETURN_IF_ERROR(shoal_work_wait(&work));
  SHOAL_RETURN_IF_ERROR(shoal_work_wait(&work));  // nothing is under way
  shoal_work_deinit(&work);
  free(work.bounce);
  shoal_device_release(device, memory);
  shoal_event_free(event);
  shoal_queue_free(queue);
  return NULL;
}

static shoal_status_t posted(shoal_world_t *world, void *self) {
  job_t *job = self;
  shoal_device_t *device;
  shoal_lane_t *lane;
  SHOAL_RETURN_IF_ERROR(make_way(world, job->way, (shoal_allocator_t){0}, &device));
  SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, "posts", &lane));
  if (shoal_world_rank(world) == 0) {
    SHOAL_RETURN_IF_ERROR(post(world, job, device, lane));
  } else {
    SHOAL_RETURN_IF_ERROR(wait_for_stage(job, 1));
    const int count = job->way == SHOAL_WORK_VIEWED ? 1 : POSTS;
    int32_t *data = malloc(POST_BYTES);
    for (int i = 0; i < count; ++i) {
      shoal_message_t message = {0, 3, POST_BYTES, data};
      shoal_exchange_t e;
      SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(lane, 0, NULL, 1, &message, &e));
      SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&e));
      for (int64_t k = 0; k < POST_BYTES / 4; ++k) {
        CHECK(data[k] == 70 + i, "message %d has %d at %lld", i, data[k], (long long)k);
      }
    }
    free(data);
  }
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  shoal_lane_free(lane);
  shoal_device_free(device);
  restore_world(world);
  return NULL;
}

// ---- reports --------------------------------------------------------------------------

static shoal_status_t await_report(shoal_world_t *world, const char *const *texts, int count) {
  char report[6000] = "";
  const int64_t end = shoal_time_ns() + INT64_C(30000000000);
  for (;;) {
    SHOAL_RETURN_IF_ERROR(shoal_world_report(world, report, sizeof report));
    int found = 0;
    while (found < count && strstr(report, texts[found])) ++found;
    if (found == count) return NULL;
    CHECK(shoal_time_ns() < end, "no '%s' in the report: %s", texts[found], report);
    shoal_time_sleep_ns(1000000);
  }
}

// Rank 0 enqueues three all-reduces; rank 1 comes only when the reports are right.
static shoal_status_t reported(shoal_world_t *world, void *self) {
  job_t *job = self;
  const int32_t me = shoal_world_rank(world);
  static const char *const labels[] = {"grads/w1", "grads/w2", "grads/w3"};
  shoal_device_t *device;
  shoal_queue_t *queue;
  shoal_group_t *group;
  shoal_lane_t *lane;
  shoal_address_t memory;
  shoal_work_t works[3];
  double bounce[3];
  SHOAL_RETURN_IF_ERROR(make_way(world, job->way, (shoal_allocator_t){0}, &device));
  SHOAL_RETURN_IF_ERROR(shoal_queue_create(device, &queue));
  SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, "grads", &lane));
  SHOAL_RETURN_IF_ERROR(shoal_lane_group_create(lane, 2, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_device_alloc(device, 64, &memory));
  for (int i = 0; i < 3; ++i) {
    works[i] = (shoal_work_t){
        .world = world,
        .label = labels[i],
        .group = group,
        .collective = {.kind = SHOAL_COLLECTIVE_ALL_REDUCE, .dtype = SHOAL_F64, .count = 1},
        .send = memory,
        .recv = memory};
    SHOAL_RETURN_IF_ERROR(shoal_work_prepare(device, &works[i]));
    works[i].bounce = (char *)&bounce[i];
  }
  SHOAL_RETURN_IF_ERROR(shoal_queue_fill(queue, &(shoal_fill_t){memory, SHOAL_F64, 1, me + 1}));
  if (me == 1) SHOAL_RETURN_IF_ERROR(wait_for_stage(job, 1));
  for (int i = 0; i < 3; ++i) SHOAL_RETURN_IF_ERROR(shoal_work_enqueue(&works[i], queue));
  if (me == 0 && job->way == SHOAL_WORK_NATIVE) {
    const char *const texts[] = {"rank 0 waits in all_reduce of f64 by sum for rank 1",
                                 "'grads/w1', all_reduce of f64 by sum, 8 bytes, call ",
                                 "'grads/w2', all_reduce of f64 by sum, 8 bytes, call ",
                                 "'grads/w3', all_reduce of f64 by sum, 8 bytes, call ",
                                 " of ranks 0,1 on grads, enqueued"};
    SHOAL_RETURN_IF_ERROR(await_report(world, texts, 5));
  } else if (me == 0) {
    const char *const texts[] = {
        "rank 0 waits in all_reduce of f64 by sum for rank 1",
        "'grads/w1', all_reduce of f64 by sum, 8 bytes, call 1 of ranks 0,1 on grads; 2 more "
        "enqueued"};
    SHOAL_RETURN_IF_ERROR(await_report(world, texts, 2));
  }
  if (me == 0) atomic_store(&job->stage, 1);
  double got = 0;
  SHOAL_RETURN_IF_ERROR(shoal_queue_download(queue, memory, &got, sizeof got));
  SHOAL_RETURN_IF_ERROR(shoal_queue_wait(queue));
  CHECK(got == 12, "the sum is %g", got);
  if (me == 0) {
    const char *const texts[] = {"rank 0 waits for nobody and is in no operation; its last, done"};
    SHOAL_RETURN_IF_ERROR(await_report(world, texts, 1));
  }
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  for (int i = 0; i < 3; ++i) shoal_work_deinit(&works[i]);
  shoal_device_release(device, memory);
  shoal_group_free(group);
  shoal_lane_free(lane);
  shoal_queue_free(queue);
  shoal_device_free(device);
  restore_world(world);
  return NULL;
}

// Rank 1 never comes: the queue's error names the label, what was annotated, and whom it waits for.
static shoal_status_t stuck(shoal_world_t *world, void *self) {
  job_t *job = self;
  shoal_device_t *device;
  shoal_queue_t *queue;
  shoal_lane_t *lane;
  shoal_address_t memory;
  SHOAL_RETURN_IF_ERROR(make_way(world, job->way, (shoal_allocator_t){0}, &device));
  SHOAL_RETURN_IF_ERROR(shoal_queue_create(device, &queue));
  SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, "late", &lane));
  SHOAL_RETURN_IF_ERROR(shoal_device_alloc(device, 64, &memory));
  if (shoal_world_rank(world) == 0) {
    ring_t ring;
    SHOAL_RETURN_IF_ERROR(make_ring(world, device, lane, 8, memory, &ring));
    ring.work.label = "step: reshard of x";
    ring.work.what = "reshard of 'x'";
    SHOAL_RETURN_IF_ERROR(shoal_work_enqueue(&ring.work, queue));
    CHECK_ERROR(DEADLINE, "reshard of 'x'", shoal_queue_wait(queue));
    shoal_work_deinit(&ring.work);
    free(ring.work.bounce);
  } else {
    SHOAL_RETURN_IF_ERROR(wait_for_stage(job, 1));
  }
  atomic_store(&job->stage, 1);
  CHECK_ERROR(DEADLINE, "waits to receive tag 9, 8 bytes", shoal_world_agree(world, NULL));
  CHECK_ERROR(DEADLINE,
              "'step: reshard of x', exchange with rank 1, tag 9, 16 bytes on lane 'late'",
              shoal_world_agree(world, NULL));
  shoal_device_release(device, memory);
  shoal_lane_free(lane);
  shoal_queue_free(queue);
  shoal_device_free(device);
  restore_world(world);
  return NULL;
}

// ---- all of it ------------------------------------------------------------------------

#define FOR_EACH_WAY(job)                                \
  for (int way_ = 0; way_ <= SHOAL_WORK_BOUNCED; ++way_) \
    for (job_t job = {.way = (shoal_work_way_t)way_}, *once = &job; once; once = NULL)

static void test_collectives(void **state) {
  (void)state;
  FOR_EACH_WAY(job) {
    run_threads(NULL, 3, collectives, &job);
    run_threads(NULL, 1, collectives, &job);
  }
}

static void test_rings(void **state) {
  (void)state;
  FOR_EACH_WAY(job) {
    shoal_failing_t counter = {0};
    job.counter = &counter;
    const shoal_world_options_t options = {.allocator = shoal_allocator_failing(&counter)};
    run_threads(&options, 3, rings, &job);
    assert_int_equal(atomic_load(&counter.live_blocks), 0);
  }
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-5, bandwidth: 1.0e9}\n", "");
  shoal_failing_t counter = {0};
  job_t job = {.way = SHOAL_WORK_BOUNCED, .counter = &counter};
  run_threads(NULL, 2, rings, &job);
  unthrottle();
}

static void test_posted(void **state) {
  (void)state;
  for (int way = SHOAL_WORK_VIEWED; way <= SHOAL_WORK_BOUNCED; ++way) {
    job_t job = {.way = (shoal_work_way_t)way};
    run_threads(NULL, 2, posted, &job);
  }
  shoal_work_t work = {.posts = true, .recv_count = 1};
  assert_error(INVALID_ARGUMENT, "what receives cannot be posted", shoal_work_prepare(NULL, &work));
}

static void test_reports(void **state) {
  (void)state;
  FOR_EACH_WAY(job) run_threads(NULL, 2, reported, &job);
  for (int way = SHOAL_WORK_VIEWED; way <= SHOAL_WORK_BOUNCED; ++way) {
    job_t job = {.way = (shoal_work_way_t)way};
    run_threads(&(shoal_world_options_t){.timeout_ms = 300}, 2, stuck, &job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_collectives),
      cmocka_unit_test(test_rings),
      cmocka_unit_test(test_posted),
      cmocka_unit_test(test_reports),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
