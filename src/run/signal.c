// Signal handlers are process-wide by nature: this file has the one flag they need.
#include "run/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"

static const int caught[] = {SIGTERM, SIGINT};
enum { CAUGHT_COUNT = sizeof caught / sizeof caught[0] };

static atomic_bool raised;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t users;
static struct sigaction before[CAUGHT_COUNT];

static void handle(int number) {
  if (!atomic_exchange(&raised, true)) return;
  signal(number, SIG_DFL);
  raise(number);
}

static shoal_status_t install(void) {
  atomic_store(&raised, false);
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < CAUGHT_COUNT; ++i) {
    if (sigaction(caught[i], &action, &before[i]) == 0) continue;
    const int error = errno;
    while (i-- > 0) sigaction(caught[i], &before[i], NULL);
    return SHOAL_ERROR(UNAVAILABLE, "cannot catch signals: %s", strerror(error));
  }
  return NULL;
}

shoal_status_t shoal_signals_catch(void) {
  pthread_mutex_lock(&lock);
  shoal_status_t status = users == 0 ? install() : NULL;
  if (!status) ++users;
  pthread_mutex_unlock(&lock);
  return status;
}

void shoal_signals_release(void) {
  pthread_mutex_lock(&lock);
  if (users > 0 && --users == 0) {
    for (int i = 0; i < CAUGHT_COUNT; ++i) sigaction(caught[i], &before[i], NULL);
  }
  pthread_mutex_unlock(&lock);
}

bool shoal_signals_raised(void) {
  return atomic_load(&raised);
}
