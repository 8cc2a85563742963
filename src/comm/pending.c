// Lists of started exchanges and their cursors; see pending.h.
#include "comm/pending.h"

void shoal_pending_add(shoal_pending_t *pending, shoal_exchange_t *exchange) {
  exchange->next = NULL;
  if (pending->last) {
    pending->last->next = exchange;
  } else {
    pending->first = exchange;
  }
  pending->last = exchange;
}

void shoal_pending_remove(shoal_pending_t *pending, shoal_exchange_t *exchange) {
  shoal_exchange_t *before = NULL, *at = pending->first;
  while (at && at != exchange) {
    before = at;
    at = at->next;
  }
  if (!at) return;
  if (before) {
    before->next = at->next;
  } else {
    pending->first = at->next;
  }
  if (pending->last == at) pending->last = before;
}

// From where the cursor is, inclusive, to the next message with the peer.
static void seek(shoal_cursor_t *cursor, shoal_direction_t direction, int32_t peer) {
  while (cursor->exchange) {
    const shoal_message_t *messages = shoal_exchange_messages(cursor->exchange, direction);
    const int32_t count = shoal_exchange_count(cursor->exchange, direction);
    for (; cursor->index < count; ++cursor->index) {
      if (messages[cursor->index].peer == peer) return;
    }
    cursor->exchange = cursor->exchange->next;
    cursor->index = 0;
  }
}

void shoal_cursor_offer(shoal_cursor_t *cursor, shoal_direction_t direction, int32_t peer,
                        shoal_exchange_t *added) {
  if (cursor->exchange) return;
  *cursor = (shoal_cursor_t){.exchange = added};
  seek(cursor, direction, peer);
}

shoal_exchange_t *shoal_cursor_finish(shoal_cursor_t *cursor, shoal_direction_t direction,
                                      int32_t peer, shoal_pending_t *pending) {
  shoal_exchange_t *exchange = cursor->exchange;
  ++exchange->progress[direction];
  ++cursor->index;
  seek(cursor, direction, peer);
  if (!shoal_exchange_done(exchange)) return NULL;
  shoal_pending_remove(pending, exchange);
  return exchange;
}

bool shoal_cursor_is_ahead(const shoal_cursor_t *cursor, const shoal_exchange_t *exchange,
                           int32_t index) {
  if (cursor->exchange == exchange) return index >= cursor->index;
  for (const shoal_exchange_t *e = cursor->exchange; e; e = e->next) {
    if (e == exchange) return true;
  }
  return false;
}
