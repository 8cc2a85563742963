// The started exchanges of one stream, and cursors over their messages. Nothing is allocated: the
// callers' exchanges form a linked list, and one cursor per direction and peer is enough, because
// messages between two ranks are sent one after the other.
#ifndef SHOAL_COMM_PENDING_H_
#define SHOAL_COMM_PENDING_H_

#include "shoal/comm.h"

typedef enum shoal_direction { SHOAL_SEND, SHOAL_RECV } shoal_direction_t;

typedef struct shoal_pending {
  shoal_exchange_t *first, *last;
} shoal_pending_t;

// The next message of one direction with one peer; exchange is NULL when there is none.
typedef struct shoal_cursor {
  shoal_exchange_t *exchange;
  int32_t index;
} shoal_cursor_t;

static inline int32_t shoal_exchange_count(const shoal_exchange_t *e, shoal_direction_t direction) {
  return direction == SHOAL_SEND ? e->send_count : e->recv_count;
}

static inline const shoal_message_t *shoal_exchange_messages(const shoal_exchange_t *e,
                                                             shoal_direction_t direction) {
  return direction == SHOAL_SEND ? e->sends : e->recvs;
}

static inline const shoal_message_t *shoal_cursor_message(const shoal_cursor_t *cursor,
                                                          shoal_direction_t direction) {
  return &shoal_exchange_messages(cursor->exchange, direction)[cursor->index];
}

static inline bool shoal_exchange_done(const shoal_exchange_t *e) {
  return e->progress[SHOAL_SEND] == e->send_count && e->progress[SHOAL_RECV] == e->recv_count;
}

void shoal_pending_add(shoal_pending_t *pending, shoal_exchange_t *exchange);
void shoal_pending_remove(shoal_pending_t *pending, shoal_exchange_t *exchange);  // if it is there
// A cursor without messages looks at the newly added exchange.
void shoal_cursor_offer(shoal_cursor_t *cursor, shoal_direction_t direction, int32_t peer,
                        shoal_exchange_t *added);
// Counts the cursor's message as done, goes to the next one, and takes the exchange off the list if
// that was its last. Returns the exchange if so.
shoal_exchange_t *shoal_cursor_finish(shoal_cursor_t *cursor, shoal_direction_t direction,
                                      int32_t peer, shoal_pending_t *pending);
// Says whether message `index` of the exchange is still to come, by the cursor of its peer.
bool shoal_cursor_is_ahead(const shoal_cursor_t *cursor, const shoal_exchange_t *exchange,
                           int32_t index);

#endif  // SHOAL_COMM_PENDING_H_
