// What the specs of this room share: an event store, and the endpoints that have one.

import type { EventStore } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { Awaitable } from '../../helpers/gate.js'
import { headersFor, notification, result } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'

/** What a client at 2025-11-25 sends with everything. */
export const MODERN = headersFor({ version: '2025-11-25' })

export const note = (n: number) => notification('notifications/message', { level: 'info', data: n })

/** An event as an endpoint writes it, with an id of its own. */
export const event = (id: string | number, message: unknown) =>
  `id: ${id}\ndata: ${JSON.stringify(message)}\n\n`

export const answer = result(1, {})

/** The sample store of the SDKs, with ids that order its events. */
export class OrderedStore implements EventStore {
  /** The ids by which events were asked for again. */
  readonly replays = new Awaitable<string>()
  readonly #events: { id: string; streamId: string; message: Json }[] = []
  readonly #streams: string[] = []

  async storeEvent(streamId: string, message: Json): Promise<string> {
    if (!this.#streams.includes(streamId)) this.#streams.push(streamId)
    const id = `store-${this.#streams.indexOf(streamId)}-${this.#events.length}`
    this.#events.push({ id, streamId, message })
    return id
  }

  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return this.#events.find(({ id }) => id === eventId)?.streamId
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (id: string, message: Json) => Promise<void> }
  ): Promise<string> {
    this.replays.push(lastEventId)
    const at = this.#events.findIndex(({ id }) => id === lastEventId)
    const { streamId } = this.#events[at]!
    for (const { id, message } of this.#events
      .slice(at + 1)
      .filter(event => event.streamId === streamId)) {
      if (Object.keys(message).length > 0) await send(id, message)
    }
    return streamId
  }
}

/** Stateful endpoints of both SDKs, each with such a store. */
export const ENDPOINTS = {
  'SDK v1': (eventStore: EventStore) =>
    sdkV1Stateful({ eventStore, transport: { retryInterval: 50 } }),
  'SDK v2': (eventStore: EventStore) =>
    sdkV2Stateful({ eventStore, transport: { retryInterval: 50 } })
}
