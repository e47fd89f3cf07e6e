// A client written from SEP-1335's text alone: the five steps of its client algorithm, and no more
// knowledge than that.

import { isMessage } from '../../helpers/blocks.js'
import {
  NoResponseError,
  openStream,
  type Json,
  type OpenStream
} from '../../helpers/open-stream.js'
import { sleep } from '../../helpers/sleep.js'

export interface SepClientOptions {
  /** With every request. */
  headers?: Record<string, string>
  /** Answers a request of the server; `undefined`: not at all. */
  answer: (request: Json) => Json | Promise<Json>
  /** Sends one buffered answer as an object and not as an array. */
  single?: boolean
  /** Forgets event ids. */
  withoutIds?: boolean
}

export interface SepCall {
  /** The response to the call. */
  response: Json
  /** All other messages, in order, as often as they came. */
  messages: Json[]
  /** What was asked, and its status. */
  trace: string[]
  /** The stream URL of each turn. */
  links: string[]
}

/** No call of the specs needs as many requests. */
const MOST_REQUESTS = 60

export class SepClient {
  readonly #url: string
  readonly #options: SepClientOptions

  constructor(url: string, options: SepClientOptions) {
    this.#url = url
    this.#options = options
  }

  /** Sends a request and sees it through to its response. */
  async call(message: Json): Promise<SepCall> {
    const call: SepCall = { response: undefined, messages: [], trace: [], links: [] }
    const position = { id: undefined as string | undefined, retry: 0 }
    const buffer: (Json | Promise<Json>)[] = []
    const { headers = {}, single = false, withoutIds = false } = this.#options

    const send = async (
      name: string,
      url: string,
      body?: Json
    ): Promise<OpenStream | undefined> => {
      if (call.trace.length >= MOST_REQUESTS) throw new Error(`no end: ${call.trace.join(', ')}`)
      const lastEventId = body === undefined && !withoutIds ? position.id : undefined
      try {
        const sent = { ...headers, ...(lastEventId && { 'last-event-id': lastEventId }) }
        const stream = await openStream(url, { headers: sent, ...(body !== undefined && { body }) })
        call.trace.push(`${name} ${stream.status}`)
        const link = /<([^<>]*)>; rel="stream"/.exec(String(stream.headers.link))?.[1]
        if (link !== undefined && (body !== undefined || call.links.length === 0))
          call.links.push(new URL(link, url).href)
        return stream
      } catch (error) {
        if (!(error instanceof NoResponseError)) throw error
        call.trace.push(`${name} lost`)
        return undefined
      }
    }

    const read = async (stream: OpenStream): Promise<void> => {
      await stream.ended
      for (const block of stream.blocks) {
        if (block.id !== undefined) position.id = block.id
        if (block.retry !== undefined) position.retry = Number(block.retry)
        if (!isMessage(block)) continue
        const received = JSON.parse(block.data!)
        if (received.method === undefined && received.id === message.id) call.response = received
        else call.messages.push(received)
        if (received.method !== undefined && received.id !== undefined)
          buffer.push(this.#options.answer(received))
      }
    }

    // Step 1. A call whose head is lost cannot be followed: that is not this part's affair.
    const first = await send('call', this.#url, message)
    if (first === undefined) throw new Error('the call was lost')
    await read(first)
    while (call.response === undefined) {
      // Step 2.
      await sleep(position.retry)
      const resumed = await send('GET', call.links.at(-1)!)
      if (resumed === undefined) continue
      if (resumed.status === 200) {
        await read(resumed)
        continue
      }
      if (resumed.status !== 204) throw new Error(`${resumed.status}: ${call.trace.join(', ')}`)
      // Step 3. Without anything to send, all that is left is to ask again.
      if (buffer.length === 0) continue
      const answers = (await Promise.all(buffer)).filter(answer => answer !== undefined)
      let next: OpenStream | undefined
      const body = single && answers.length === 1 ? answers[0] : answers
      while (next === undefined) next = await send('answers', call.links.at(-1)!, body)
      if (next.status !== 200) throw new Error(`${next.status}: ${call.trace.join(', ')}`)
      // Step 4.
      buffer.length = 0
      await read(next)
    }
    return call
  }
}
