// A gate that one queue's work waits at until somebody opens it: the tests' way to hold a queue up.
#ifndef SHOAL_TESTS_UNIT_DEVICE_GATE_H_
#define SHOAL_TESTS_UNIT_DEVICE_GATE_H_

#include <pthread.h>

#include "shoal/base.h"

typedef struct gate {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool open;
} gate_t;

#define GATE_CLOSED \
  { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }

static inline shoal_status_t pass_gate(void *self) {
  gate_t *gate = self;
  pthread_mutex_lock(&gate->lock);
  while (!gate->open) pthread_cond_wait(&gate->changed, &gate->lock);
  pthread_mutex_unlock(&gate->lock);
  return NULL;
}

static inline shoal_status_t open_gate(void *self) {
  gate_t *gate = self;
  pthread_mutex_lock(&gate->lock);
  gate->open = true;
  pthread_cond_broadcast(&gate->changed);
  pthread_mutex_unlock(&gate->lock);
  return NULL;
}

#endif  // SHOAL_TESTS_UNIT_DEVICE_GATE_H_
