// Messages of `mpi` that arrived, given to whoever expects them. They wait on their stream in
// order, so that taking the next one costs the same however many wait. The world's mutex is held.
#include <stdio.h>
#include <string.h>

#include "comm/backends/mpi/engine.h"

static shoal_mpi_stream_t *find_stream(shoal_mpi_world_t *world, uint64_t id) {
  shoal_mpi_stream_t *stream = world->streams;
  while (stream && stream->base.id != id) stream = stream->next;
  return stream;
}

void shoal_mpi_finish_receive(shoal_mpi_stream_t *stream, int32_t peer) {
  shoal_mpi_receiver_t *receiver = &stream->receivers[peer];
  receiver->flight = NULL;
  ++receiver->sequence;
  ++stream->moved;
  shoal_cursor_finish(&receiver->cursor, SHOAL_RECV, peer, &stream->pending);
}

int32_t shoal_mpi_plain_tag(const shoal_mpi_stream_t *stream, int32_t tag) {
  return stream->base.collective ? tag & ~SHOAL_MPI_COMPARES : tag;
}

// One rank compares counts before MPI's own collective, the other composes the same call: their
// counts differ. False: it is something else.
static bool describe_ways(const shoal_mpi_stream_t *stream, const shoal_message_t *expected,
                          const shoal_mpi_packet_t *packet, char *buffer, size_t capacity) {
  const shoal_mpi_header_t *header = &packet->header;
  if (!stream->base.collective || (expected->tag ^ header->tag) != SHOAL_MPI_COMPARES) return false;
  const int32_t me = stream->base.world->rank, tag = shoal_mpi_plain_tag(stream, header->tag);
  const bool compares = expected->tag < 0;  // this rank
  shoal_mpi_comparison_t comparison;
  memcpy(&comparison, compares ? expected->data : packet->bytes, sizeof comparison);
  char what[80], call[64];
  shoal_collective_describe(tag, what, sizeof what);
  shoal_stream_describe_call(&stream->base, call, sizeof call);
  snprintf(buffer, capacity,
           "counts differ in %s%s: rank %d joins %lld elements, by MPI's own, but rank %d composes "
           "it of messages, here one of %lld bytes",
           what, call, compares ? me : expected->peer, (long long)comparison.count,
           compares ? expected->peer : me, (long long)(compares ? header->bytes : expected->bytes));
  return true;
}

static void break_by_mismatch(shoal_mpi_world_t *world, const shoal_mpi_stream_t *stream,
                              const shoal_message_t *expected, const shoal_mpi_packet_t *packet) {
  char text[SHOAL_FAILURE_TEXT];
  const shoal_mpi_header_t *header = &packet->header;
  if (!describe_ways(stream, expected, packet, text, sizeof text)) {
    shoal_message_t plain = *expected;
    plain.tag = shoal_mpi_plain_tag(stream, plain.tag);
    const shoal_came_t came = {shoal_mpi_plain_tag(stream, header->tag), header->bytes,
                               header->sequence};
    shoal_stream_describe_mismatch(&stream->base, &plain, came, text, sizeof text);
  }
  shoal_mpi_break(world, SHOAL_MISMATCH, text);
}

// Gives a packet to whoever expects it; false: it must wait.
static bool match_packet(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream, int32_t peer,
                         const shoal_mpi_packet_t *packet) {
  const shoal_mpi_header_t *header = &packet->header;
  shoal_mpi_receiver_t *receiver = &stream->receivers[peer];
  if (!receiver->cursor.exchange || receiver->flight) return false;
  const shoal_message_t *message = shoal_cursor_message(&receiver->cursor, SHOAL_RECV);
  if (header->check != SHOAL_MPI_CHECK || header->sequence != receiver->sequence ||
      header->tag != message->tag || header->bytes != message->bytes) {
    break_by_mismatch(world, stream, message, packet);
    return false;
  }
  if (!header->payload) {
    if (message->bytes > 0) memcpy(message->data, packet->bytes, (size_t)message->bytes);
    shoal_mpi_finish_receive(stream, peer);
    return true;
  }
  shoal_mpi_flight_t *flight = shoal_mpi_take_flight(world);
  if (!flight) {
    shoal_mpi_break(world, SHOAL_OUT_OF_MEMORY, "out of memory for a message's payload");
    return false;
  }
  flight->moved = &stream->moved;
  flight->stream = stream;
  flight->exchange = receiver->cursor.exchange;
  flight->message = message;
  flight->peer = peer;
  flight->payload = header->payload;
  receiver->flight = flight;
  shoal_mpi_expect_payload(world, flight);
  return true;
}

static void append(shoal_mpi_queue_t *queue, shoal_mpi_packet_t *packet) {
  packet->next = NULL;
  if (queue->last) {
    queue->last->next = packet;
  } else {
    queue->first = packet;
  }
  queue->last = packet;
}

static shoal_mpi_packet_t *take_first(shoal_mpi_queue_t *queue) {
  shoal_mpi_packet_t *packet = queue->first;
  queue->first = packet->next;
  if (!queue->first) queue->last = NULL;
  return packet;
}

void shoal_mpi_match(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream, int32_t peer) {
  shoal_mpi_queue_t *arrived = &stream->receivers[peer].arrived;
  while (arrived->first && !shoal_failure_is_set(&world->failure) &&
         match_packet(world, stream, peer, arrived->first)) {
    shoal_mpi_give_packet(world, take_first(arrived));
  }
}

void shoal_mpi_stream_open(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream) {
  stream->next = world->streams;
  world->streams = stream;
  for (int32_t i = 0; i < world->base.size; ++i) {
    shoal_mpi_queue_t strays = world->peers[i].strays;
    world->peers[i].strays = (shoal_mpi_queue_t){0};
    while (strays.first) {
      shoal_mpi_packet_t *packet = take_first(&strays);
      const bool is_its = packet->header.stream == stream->base.id;
      append(is_its ? &stream->receivers[i].arrived : &world->peers[i].strays, packet);
    }
  }
}

void shoal_mpi_stream_close(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream) {
  shoal_mpi_stream_t **at = &world->streams;
  while (*at && *at != stream) at = &(*at)->next;
  if (*at) *at = stream->next;
  for (int32_t i = 0; i < world->base.size; ++i) {
    shoal_mpi_queue_t *arrived = &stream->receivers[i].arrived;
    while (arrived->first) shoal_mpi_give_packet(world, take_first(arrived));
  }
}

void shoal_mpi_take_message(shoal_mpi_world_t *world, int32_t rank, shoal_mpi_packet_t *packet) {
  shoal_mpi_stream_t *stream = find_stream(world, packet->header.stream);
  if (!stream) {
    append(&world->peers[rank].strays, packet);
    return;
  }
  append(&stream->receivers[rank].arrived, packet);
  shoal_mpi_match(world, stream, rank);
}
