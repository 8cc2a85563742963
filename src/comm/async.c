// Asynchronous collectives: a queue and a thread per group, on any backend.
//
// Why a thread per group and not one per world: a rank may start A then B while another starts B
// then A. Each is a legal order, and a single thread that runs blocking collectives would wait for
// ever. The threads sleep while they wait.
#include "base/status.h"
#include "comm/comm_impl.h"
#include "comm/progress.h"

static void work(void *self) {
  shoal_group_t *group = self;
  shoal_async_t *async = group->async;
  shoal_mutex_lock(&async->mutex);
  for (;;) {
    while (!async->first && !async->stopping) shoal_cond_wait(&async->changed, &async->mutex);
    shoal_request_t *request = async->first;
    if (!request) break;
    shoal_mutex_unlock(&async->mutex);
    shoal_comm_label(request->label);
    shoal_status_t status = shoal_collective_run_now(group, &request->collective);
    shoal_mutex_lock(&async->mutex);
    async->first = request->next;
    if (!async->first) async->last = NULL;
    request->status = status;
    request->done = true;  // from here on it is the caller's again
    shoal_cond_broadcast(&async->changed);
  }
  shoal_mutex_unlock(&async->mutex);
}

static shoal_status_t create(shoal_group_t *group) {
  shoal_allocator_t allocator = group->world->allocator;
  shoal_async_t *async = allocator.alloc(allocator.self, sizeof *async);
  if (!async) return SHOAL_OOM();
  *async = (shoal_async_t){0};
  shoal_status_t status = shoal_mutex_init(&async->mutex);
  if (!status) {
    status = shoal_cond_init(&async->changed);
    if (status) shoal_mutex_deinit(&async->mutex);
  }
  if (!status) {
    group->async = async;
    status = shoal_thread_start(work, group, &async->thread);
    if (!status) return NULL;
    group->async = NULL;
    shoal_cond_deinit(&async->changed);
    shoal_mutex_deinit(&async->mutex);
  }
  allocator.free(allocator.self, async);
  return status;
}

bool shoal_async_is_busy(shoal_group_t *group) {
  shoal_async_t *async = group->async;
  if (!async) return false;
  shoal_mutex_lock(&async->mutex);
  const bool busy = async->first != NULL;
  shoal_mutex_unlock(&async->mutex);
  return busy;
}

void shoal_async_free(shoal_group_t *group) {
  shoal_async_t *async = group->async;
  if (!async) return;
  shoal_mutex_lock(&async->mutex);
  async->stopping = true;
  shoal_cond_broadcast(&async->changed);
  shoal_mutex_unlock(&async->mutex);
  shoal_thread_join(&async->thread);
  shoal_cond_deinit(&async->changed);
  shoal_mutex_deinit(&async->mutex);
  group->world->allocator.free(group->world->allocator.self, async);
  group->async = NULL;
}

shoal_status_t shoal_collective_start(shoal_group_t *group, const shoal_collective_t *collective,
                                      shoal_request_t *out_request) {
  *out_request = (shoal_request_t){
      .group = group, .collective = *collective, .label = shoal_comm_label_of_thread()};
  if (group->size == 1 || group->rank < 0) {  // nobody to wait for
    out_request->status = shoal_collective_run_now(group, collective);
    out_request->done = true;
    return NULL;
  }
  if (!group->async) {
    shoal_status_t status = create(group);
    if (status) {  // the others will wait for this rank
      group->world->ops->fail(group->world, shoal_status_code(status),
                              shoal_status_message(status));
      return status;
    }
  }
  shoal_async_t *async = group->async;
  shoal_mutex_lock(&async->mutex);
  if (async->last) {
    async->last->next = out_request;
  } else {
    async->first = out_request;
  }
  async->last = out_request;
  shoal_cond_broadcast(&async->changed);
  shoal_mutex_unlock(&async->mutex);
  return NULL;
}

bool shoal_request_test(shoal_request_t *request) {
  shoal_async_t *async = request->group->async;
  if (!async) return request->done;
  shoal_mutex_lock(&async->mutex);
  const bool done = request->done;
  shoal_mutex_unlock(&async->mutex);
  return done;
}

bool shoal_request_wait_until(shoal_request_t *request, int64_t until_ns) {
  shoal_async_t *async = request->group->async;
  if (!async) return request->done;
  shoal_mutex_lock(&async->mutex);
  for (bool early = true; !request->done && early;) {
    early = shoal_cond_wait_until(&async->changed, &async->mutex, until_ns);
  }
  const bool done = request->done;
  shoal_mutex_unlock(&async->mutex);
  return done;
}

shoal_status_t shoal_request_wait(shoal_request_t *request) {
  shoal_async_t *async = request->group->async;
  if (async) {
    shoal_mutex_lock(&async->mutex);
    while (!request->done) shoal_cond_wait(&async->changed, &async->mutex);
    shoal_mutex_unlock(&async->mutex);
  }
  shoal_status_t status = request->status;
  request->status = NULL;
  return status;
}
