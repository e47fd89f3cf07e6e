// A client that goes by the letter: stock ones resume at the endpoint, announced ones follow links,
// keyed ones repeat their POST too.

import { setTimeout as sleep } from 'node:timers/promises'
import { cancelled } from '../helpers/mcp.js'
import type { Json, OpenStream } from '../helpers/open-stream.js'
import * as client from './clients.js'
import { type ClientContext, type End } from './clients.js'
import { areBodiesRead, requestId, Violation } from './oracle.js'

/** Begins the ids of a client's own requests of the Streams draft. */
const ASKING = 'draft-'

export async function followRaw(context: ClientContext): Promise<End> {
  return new RawClient(context).run()
}

class RawClient {
  readonly #context: ClientContext
  readonly #headers: Record<string, string>
  readonly #isStock: boolean
  readonly #isDraft: boolean
  #link: string | undefined
  #lastEventId: string | undefined
  #retry = 1
  #requests = 0
  #handsOff = false
  #answers: Json[] = []
  #asking: Promise<unknown>[] = []
  #hasLeft = false

  constructor(context: ClientContext) {
    const { plan } = context
    this.#context = context
    this.#isStock = plan.client.startsWith('stock')
    this.#isDraft = plan.client === 'draft'
    this.#headers = {
      ...client.headersOf(plan),
      ...(!this.#isStock && !this.#isDraft && { prefer: 'rel=stream' }),
      [client.CALL_HEADER]: plan.key
    }
  }

  async run(): Promise<End> {
    const end = await this.#run()
    await Promise.all(this.#asking)
    return end
  }

  async #run(): Promise<End> {
    const { plan, inbox, url } = this.#context
    let response = await this.#call()
    if (response === undefined) return 'lost'
    const isTaken = this.#link !== undefined
    if (response.status === 200 && !client.isEventStream(response)) return this.#readJson(response)
    if (response.status !== 200) return this.#refused(response)
    for (;;) {
      if (response !== undefined) await this.#read(response)
      if (this.#hasLeft) return 'left'
      if (inbox.isDone) return inbox.reasons.length > 0 ? 'error' : 'complete'
      if (!isTaken) return this.#bare()
      if (this.#isStock && this.#lastEventId === undefined) return 'lost'
      await sleep(Math.min(this.#retry, 50))
      if (this.#isDraft) {
        // A method in a body that is not read goes to the endpoint.
        if (!areBodiesRead(this.#context.scenario)) return 'lost'
        await this.#poll()
        response = await this.#resume()
        if (response === undefined) continue
        if (response.status !== 200) return this.#refused(response)
        if (client.isEventStream(response)) continue
        if (await this.#isUnknown(response)) return 'error'
        response = undefined
        continue
      }
      const position = this.#lastEventId === undefined ? {} : { 'last-event-id': this.#lastEventId }
      response = await this.#send('GET', this.#isStock ? url : this.#link!, undefined, position)
      if (response === undefined) continue
      this.#noteLink(response)
      if (response.status === 204 && this.#answers.length > 0) {
        response = await this.#postAnswers()
        if (response === undefined) continue
      } else if (response.status === 204) {
        // Without an id it gets the turn and a 204 in turns, whatever it has missed of the one.
        if (
          this.#handsOff &&
          this.#lastEventId === undefined &&
          areBodiesRead(this.#context.scenario)
        )
          continue
        inbox.finish('204')
      }
      if (response.status !== 200) return this.#refused(response)
      if (!client.isEventStream(response))
        throw new Violation(`${plan.key}: no event stream on its URL`)
    }
  }

  /** The POST of the call: repeated where it has a key, until a head has come back. */
  async #call(): Promise<OpenStream | undefined> {
    const { plan, url } = this.#context
    const isKeyed = plan.client === 'keyed'
    const key = { 'idempotency-key': `key-${plan.key}-${plan.version}` }
    for (;;) {
      const response = await this.#send('POST', url, client.bodyOf(plan), isKeyed ? key : {})
      // An endpoint that breaks off and is not asked for a key breaks off each time.
      const isHopeless = !areBodiesRead(this.#context.scenario) && this.#requests > plan.cuts.length
      if (response === undefined && isKeyed && !isHopeless) continue
      if (response === undefined) return undefined
      const isJson = response.status === 200 && !client.isEventStream(response)
      // A part of a body is of no use, and may be asked for again.
      if (isJson && isKeyed && (await client.readWhole(response)) === undefined) continue
      this.#noteLink(response)
      const applied = String(response.headers['preference-applied'] ?? '')
      this.#handsOff =
        this.#link !== undefined &&
        applied.includes('rel=stream') &&
        !applied.includes('handoff=never')
      return response
    }
  }

  /** What there is behind the cursor, which changes nothing. */
  async #poll(): Promise<void> {
    const response = await this.#ask('stream/poll')
    if (response === undefined) return
    const [answer] = (response.status === 200 && (await client.readWhole(response))) || []
    const hasPending = answer?.result?.pendingMessages
    if (answer?.result !== undefined && typeof hasPending !== 'boolean')
      throw new Violation(`a poll is answered with ${JSON.stringify(answer)}`)
    response.destroy()
  }

  #resume(): Promise<OpenStream | undefined> {
    return this.#ask('stream/resume')
  }

  #ask(method: string): Promise<OpenStream | undefined> {
    const { url } = this.#context
    const streamId = new URL(this.#link!).searchParams.get('stream')
    // It says so where it has nothing yet: without a cursor the server would have to guess.
    const cursor = this.#lastEventId ?? 0
    const params = { streamId, cursor }
    return this.#send('POST', url, {
      jsonrpc: '2.0',
      id: `${ASKING}${this.#requests}`,
      method,
      params
    })
  }

  /** Whether `stream/resume` was answered with an error in JSON. */
  async #isUnknown(response: OpenStream): Promise<boolean> {
    const { inbox } = this.#context
    const [answer] = (await client.readWhole(response)) ?? []
    if (answer === undefined) return false
    if (answer.error !== undefined) inbox.refuse(answer.error.data?.reason ?? answer.error.message)
    else if (answer.result.status !== 'live') inbox.finish('the result of stream/resume')
    return answer.error !== undefined
  }

  /** The answer to `stream/resume` itself, at the end of what it has brought. */
  #takeOwn({ error, result }: Json): void {
    const { inbox } = this.#context
    if (error !== undefined) inbox.refuse(error.data?.reason ?? error.message)
    else if (result.status === 'completed') inbox.finish('the result of stream/resume')
  }

  async #postAnswers(): Promise<OpenStream | undefined> {
    const answers = this.#answers
    let response: OpenStream | undefined
    while (response === undefined) response = await this.#send('POST', this.#link!, answers)
    this.#answers = []
    this.#noteLink(response)
    return response
  }

  async #send(method: string, url: string, body?: Json, more: Record<string, string> = {}) {
    const { plan, log } = this.#context
    if (++this.#requests > client.MOST_REQUESTS)
      throw new Violation(`${plan.key} (${plan.client}): no end of requests`)
    const headers = { ...this.#headers, ...more }
    const response = await client.tryOpen(url, {
      method,
      headers,
      ...(body !== undefined && { body })
    })
    const path = url.slice(url.indexOf('/mcp'))
    log(
      `${plan.key}: ${method} ${path} ${more['last-event-id'] ?? ''} -> ${response?.status ?? 'lost'}`
    )
    return response
  }

  #noteLink(response: OpenStream): void {
    const link = /<([^<>]*)>; rel="stream"/.exec(String(response.headers.link))?.[1]
    if (link !== undefined) this.#link = new URL(link, this.#context.url).href
  }

  async #read(response: OpenStream): Promise<void> {
    const { plan, inbox, log } = this.#context
    await client.readBlocks(response, client.mayFallSilent(plan), (message, id, retry) => {
      if (id !== undefined) this.#lastEventId = id
      if (retry !== undefined) this.#retry = retry
      if (String(message?.id).startsWith(ASKING)) this.#takeOwn(message)
      else if (message !== undefined) {
        const question = inbox.take(message)
        if (question !== undefined) this.#answer(question)
      }
      if (plan.leaves === undefined || inbox.isDone || inbox.count < plan.leaves.after) return false
      this.#hasLeft = true
      return true
    })
    log(
      `${plan.key}: the response ends (${response.ending ?? 'destroyed'}) behind ${inbox.count}, ${this.#lastEventId}`
    )
    if (this.#hasLeft) await this.#leave()
  }

  #answer(question: string): void {
    const { direct } = this.#context
    const answer = client.answerTo(question)
    if (this.#handsOff) return void this.#answers.push(answer)
    const posted = client.tryOpen(direct, {
      headers: client.headersOf(this.#context.plan),
      body: answer
    })
    this.#asking.push(posted.then(response => response?.ended))
  }

  async #leave(): Promise<void> {
    const { plan, direct } = this.#context
    const headers = client.headersOf(plan)
    if (plan.leaves?.how === 'cancel') {
      for (let index = 0; index < plan.requests; index++) {
        const response = await client.tryOpen(direct, {
          headers,
          body: cancelled(requestId(plan, index))
        })
        await response?.ended
      }
    } else if (plan.leaves?.how === 'delete' && this.#link !== undefined) {
      const response = await client.tryOpen(this.#link, { method: 'DELETE', headers })
      await response?.ended
    }
  }

  async #readJson(response: OpenStream): Promise<End> {
    const { inbox } = this.#context
    const messages = await client.readWhole(response)
    if (messages === undefined) return 'lost'
    for (const message of messages) inbox.take(message)
    return 'complete'
  }

  async #refused(response: OpenStream): Promise<End> {
    const reason = await client.reasonOf(response)
    if (response.ending !== 'end' && response.status >= 500) return 'lost'
    this.#context.inbox.refuse(reason)
    return 'error'
  }

  /** Nobody but the endpoint answers for a response that was left alone. */
  #bare(): End {
    const { plan, scenario } = this.#context
    if (scenario.isCalm && client.isStreamed(plan))
      throw new Violation(`${plan.key}: its stream has no link`)
    return 'bare'
  }
}
