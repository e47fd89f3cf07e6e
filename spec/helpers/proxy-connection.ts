// One connection of a cut proxy: relays both ways, asks the plan about each request, and cuts.

import { connect, type Socket } from 'node:net'
import type { ConnectionRecord, CutBy, Direction, Passage } from './cut-plan.js'
import { EventCounter } from './event-counter.js'
import { MessageFraming } from './http-framing.js'

/** More than this of one request is not held back. */
const MAX_HELD = 4 * 1024 * 1024

/** The proxy, as its connections see it. */
export interface ConnectionHost {
  readonly target: number
  readonly hold: 'body' | 'head'
  /** Numbers a request and asks the plan about it. */
  admit(passage: Passage): void
  /** Takes note of the head of a final response. */
  answered(passage: Passage): void
  /** Takes note of a cut. */
  report(passage: Passage): void
  /** Takes note of an error that is not the wire's: a plan that throws. */
  fail(error: unknown): void
}

/** A request on its way, with the framing that tells where it and its response end. */
interface EndpointRun {
  passage: Passage
  request: MessageFraming
  response: MessageFraming
  counter: EventCounter
  /** Bytes of earlier, interim heads of the response. */
  interimBytes: number
  /** Where in the response the events end that have arrived but not all been forwarded. */
  eventEnds: number[]
  /** Where in the response a cut by events falls, once that is known. */
  eventCutAt: number | undefined
  planned: boolean
  held: Buffer[]
  body: Buffer[]
}

export class ProxyConnection {
  readonly #proxy: ConnectionHost
  readonly #client: Socket
  readonly #upstream: Socket
  readonly #record: ConnectionRecord
  readonly #onGone: () => void
  /** The exchange whose request is arriving. */
  #sending: EndpointRun | undefined
  /** Exchanges whose response is not complete, oldest first. */
  readonly #awaiting: EndpointRun[] = []
  #cut = false
  #openSockets = 2

  constructor(proxy: ConnectionHost, client: Socket, record: ConnectionRecord, onGone: () => void) {
    this.#proxy = proxy
    this.#client = client
    this.#record = record
    this.#onGone = onGone
    this.#upstream = connect({
      port: proxy.target,
      host: '127.0.0.1',
      allowHalfOpen: true,
      noDelay: true
    })
    this.#relay(client, this.#upstream, 'client', chunk => this.#fromClient(chunk))
    this.#relay(this.#upstream, client, 'server', chunk => this.#fromUpstream(chunk))
  }

  destroy(): void {
    this.#end('closed')
    this.#client.destroy()
    this.#upstream.destroy()
  }

  carries(passage: Passage): boolean {
    return this.#record.passages.includes(passage)
  }

  cutNow(by: CutBy): void {
    const passage = this.#awaiting[0]?.passage ?? this.#record.passages.at(-1)
    if (passage) passage.cut = { by }
    this.#cutWire(by, passage)
  }

  #relay(
    from: Socket,
    to: Socket,
    name: 'client' | 'server',
    take: (chunk: Buffer) => Promise<void>
  ): void {
    // In turn, because a paused socket may still emit 'end' or 'error': what came before must pass
    // first.
    let work = Promise.resolve()
    const then = (step: () => unknown) => {
      work = work
        .then(async () => void (this.#cut || (await step())))
        .catch(error => this.#fail(error, to))
    }
    from.on('data', chunk => {
      if (this.#cut) return
      // One chunk at a time, and time to read it: an RST drops what is still on its way.
      from.pause()
      then(() => take(chunk))
      void work.then(readersTurn).then(() => this.#record.ended === 'silence' || from.resume())
    })
    from.on('end', () => {
      then(async () => {
        this.#end(name)
        if (name === 'client') await this.#release()
        if (!this.#cut) to.end()
      })
    })
    from.on('error', () => {
      then(() => {
        this.#end(name)
        reset(to)
      })
    })
    from.on('close', () => {
      if (!from.readableEnded && !from.errored) then(() => to.destroy())
      if (--this.#openSockets === 0) this.#onGone()
    })
  }

  async #fromClient(chunk: Buffer): Promise<void> {
    const [answered] = this.#awaiting
    // Behind an upgrade there are no requests any more: what comes belongs to the one that asked
    // for it.
    if (answered?.passage.status === 101) return this.#forward('request', answered, chunk)
    for (let rest = chunk; rest.length > 0 && !this.#cut;) {
      const exchange = (this.#sending ??= this.#startExchange())
      const taken = exchange.request.feed(rest)
      const bytes = rest.subarray(0, taken)
      rest = rest.subarray(taken)
      if (exchange.planned) await this.#forward('request', exchange, bytes)
      else {
        exchange.held.push(bytes)
        const ready =
          exchange.request.done ||
          (this.#proxy.hold === 'head' && exchange.request.head !== undefined)
        if (ready || exchange.request.offset > MAX_HELD) await this.#release()
      }
      if (exchange.request.done) this.#sending = undefined
    }
  }

  async #fromUpstream(chunk: Buffer): Promise<void> {
    for (let rest = chunk; rest.length > 0 && !this.#cut;) {
      const exchange = this.#awaiting[0]
      // A server that answers before it was asked, say 408 to a request that is still held back.
      if (!exchange) return this.#write('response', undefined, rest)
      const taken = exchange.response.feed(rest)
      await this.#forward('response', exchange, rest.subarray(0, taken))
      rest = rest.subarray(taken)
      if (!exchange.response.done) continue
      if (exchange.response.interim) {
        exchange.interimBytes += exchange.response.offset
        exchange.response = this.#followResponse(exchange)
      } else this.#awaiting.shift()
    }
  }

  #startExchange(): EndpointRun {
    const bodyParts: Buffer[] = []
    const passage: Passage = {
      index: -1,
      connection: this.#record.index,
      method: '',
      url: '',
      headers: {},
      body: '',
      message: undefined,
      bytes: { request: 0, response: 0 },
      events: 0,
      status: undefined,
      cut: undefined
    }
    const exchange: EndpointRun = {
      passage,
      request: new MessageFraming('request', {
        onHead: head => {
          const [method = '', url = ''] = head.startLine.split(' ')
          Object.assign(passage, { method, url, headers: head.headers })
          exchange.response = this.#followResponse(exchange)
        },
        onPayload: payload => exchange.planned || bodyParts.push(payload)
      }),
      response: new MessageFraming('response'),
      counter: new EventCounter((count, offset) => {
        const end = exchange.interimBytes + offset
        if (count === passage.cut?.afterEvents) exchange.eventCutAt = end
        exchange.eventEnds.push(end)
      }),
      interimBytes: 0,
      eventEnds: [],
      eventCutAt: undefined,
      planned: false,
      held: [],
      body: bodyParts
    }
    return exchange
  }

  #followResponse(exchange: EndpointRun): MessageFraming {
    let countEvents = false
    const framing: MessageFraming = new MessageFraming(
      'response',
      {
        onHead: head => {
          if (framing.interim) return
          const { passage } = exchange
          passage.status = Number(head.startLine.split(' ')[1])
          countEvents = /^text\/event-stream\b/i.test(head.headers['content-type'] ?? '')
          if (countEvents && passage.cut?.afterEvents === 0)
            exchange.eventCutAt = exchange.interimBytes + head.length
          this.#proxy.answered(passage)
        },
        onPayload: (payload, offset) => {
          if (countEvents) exchange.counter.feed(payload, offset)
        }
      },
      exchange.passage.method
    )
    return framing
  }

  /** Asks the plan about the request that is held back, and lets it go. */
  async #release(): Promise<void> {
    const exchange = this.#sending
    if (!exchange || exchange.planned) return
    const { passage } = exchange
    passage.body = Buffer.concat(exchange.body).toString()
    try {
      passage.message = JSON.parse(passage.body)
    } catch {
      passage.message = undefined
    }
    this.#proxy.admit(passage)
    exchange.planned = true
    this.#record.passages.push(passage)
    this.#awaiting.push(exchange)
    await this.#forward('request', exchange, Buffer.concat(exchange.held.splice(0)))
  }

  /** Forwards what the cut leaves of these bytes, and cuts when that was the last of it. */
  async #forward(direction: Direction, exchange: EndpointRun, bytes: Buffer): Promise<void> {
    const { passage } = exchange
    const left = this.#left(direction, exchange)
    if (bytes.length === 0) return
    await this.#write(direction, passage, bytes.subarray(0, left))
    while (exchange.eventEnds[0]! <= passage.bytes.response) {
      exchange.eventEnds.shift()
      passage.events++
    }
    if (left <= bytes.length && !this.#cut) {
      await readersTurn()
      this.#cutWire(passage.cut!.by, passage)
    }
  }

  /** How many more bytes may pass in this direction. */
  #left(direction: Direction, { passage, eventCutAt }: EndpointRun): number {
    const { cut } = passage
    if (!cut || (cut.direction ?? 'response') !== direction) return Infinity
    return (cut.afterBytes ?? eventCutAt ?? Infinity) - passage.bytes[direction]
  }

  async #write(direction: Direction, passage: Passage | undefined, bytes: Buffer): Promise<void> {
    if (bytes.length === 0 || this.#cut) return
    const to = direction === 'response' ? this.#client : this.#upstream
    await new Promise<void>((resolve, reject) =>
      to.write(bytes, error => (error ? reject(error) : resolve()))
    )
    this.#record.bytes[direction] += bytes.length
    if (passage) passage.bytes[direction] += bytes.length
  }

  #cutWire(by: CutBy, passage: Passage | undefined): void {
    const wasSilent = this.#cut && this.#record.ended === 'silence'
    if (this.#cut && !wasSilent) return
    this.#cut = true
    this.#end(by)
    for (const socket of [this.#client, this.#upstream]) {
      if (by === 'rst') reset(socket)
      else if (by === 'silence') socket.pause()
      else {
        // Reads on and throws away: closing with unread bytes would send an RST.
        socket.end()
        socket.resume()
      }
    }
    if (!passage || wasSilent) return
    passage.cut ??= { by }
    this.#proxy.report(passage)
  }

  /** A socket's error is news of the wire; anything else is a plan that threw. */
  #fail(error: unknown, to: Socket): void {
    if (!to.errored && !to.destroyed) {
      this.#proxy.fail(error)
      this.destroy()
    }
  }

  #end(how: ConnectionRecord['ended']): void {
    if (this.#record.ended === 'open') this.#record.ended = how
  }
}

/**
 * Lets a reader in this process empty its receive buffer: the poll phase lies between the two.
 * Without it, libuv sees the last bytes and the RST at once, and reports an ordinary end. In front
 * of another process: cut by silence, see that it has read, and then `cutNow('rst')`.
 */
async function readersTurn(): Promise<void> {
  await new Promise(setImmediate)
  await new Promise(setImmediate)
}

/** `resetAndDestroy` throws nothing but sends nothing either while a socket is still connecting. */
function reset(socket: Socket): void {
  if (socket.destroyed) return
  if (socket.connecting) socket.destroy()
  else socket.resetAndDestroy()
}
