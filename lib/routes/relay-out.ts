// A request for what another instance has: it is sent there whole, and its response comes back as
// it is written there.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Exchange, ExchangeUser } from '../backplane/exchange.js'
import type { InstanceLink } from '../backplane/instance-link.js'
import type { StreamFault } from '../protocol/errors.js'
import type { RequestId } from '../protocol/json-rpc.js'
import { KEEP_ALIVE_COMMENT } from '../protocol/sse-writer.js'
import { headerOf } from '../access/guards.js'
import { factsOf } from '../endpoint/loopback.js'
import { canAnswer, claim, isWritable, refuse } from '../endpoint/reply.js'
import type { DueQueue } from '../streams/due-queue.js'
import { Timer } from '../streams/timer.js'
import { PassedEvents } from './event-end.js'
import {
  encodeHead,
  HeadReader,
  headersToRelay,
  isEventStream,
  type ResponseHead,
  streamIn,
  takesComments
} from './relay-head.js'
import { EVENT_STREAM_HEAD, tellGone } from './tell-gone.js'

type MountedRequest = IncomingMessage & { readonly originalUrl?: string }

export interface RelayOptions {
  readonly link: InstanceLink
  readonly tag: string
  /** Bytes that its body may have. */
  readonly maxBodyBytes: number
  /** Milliseconds of silence after which a comment keeps its connection open; `null`: never. */
  readonly keepAlive: number | null
  /** Where it waits for this silence. */
  readonly silences: DueQueue | undefined
  readonly debug: (format: string, ...args: unknown[]) => void
  /** Its body, where that has been read already. */
  readonly body?: string | undefined
  /** The requests in it. */
  readonly requestIds: readonly RequestId[]
  /**
   * The other instance is gone, and the client has been given nothing of its answer; but perhaps
   * the head of an event stream.
   */
  readonly gone: () => void
}

/** Parts of the lease: for which a client waits in silence, and for which a POST waits at all. */
const SILENCE = 5 / 6
const PATIENCE = 2
const OF_BODY = /^content-(?:length|encoding|type)$/i

export class RelayedResponse implements ExchangeUser {
  readonly #req: MountedRequest
  readonly #res: ServerResponse
  readonly #options: RelayOptions
  readonly #exchange: Exchange
  readonly #reader = new HeadReader<ResponseHead>()
  #hasHead = false
  /** It has been given the head of an event stream, as the other instance was silent. */
  #isWaiting = false
  /** Where that says so. */
  #streamId: string | undefined
  /** Of its event stream, where it is one. */
  #events: PassedEvents | undefined
  #isOver = false
  /** It has been waited for in silence already. */
  #isLate = false
  #sent = 0
  readonly #timer = new Timer(() => this.#silent())

  constructor(req: MountedRequest, res: ServerResponse, options: RelayOptions) {
    this.#req = req
    this.#res = res
    this.#options = options
    const { link, tag } = options
    this.#exchange = link.open(tag, this)
  }

  begin(): void {
    const req = this.#req
    const res = this.#res
    const { link, body } = this.#options
    // What `relayAnswer` says of late writes is true here, too.
    res.on('error', () => undefined)
    res.on('drain', () => this.#exchange.resume())
    res.once('close', () => {
      if (!this.#isOver) this.#stop()
    })
    const hasBody = body !== undefined
    const headers = headersToRelay(req.rawHeaders, hasBody ? OF_BODY : undefined)
    if (hasBody)
      headers.push(
        'Content-Type',
        'application/json',
        'Content-Length',
        String(Buffer.byteLength(body))
      )
    const url = req.originalUrl ?? req.url ?? '/'
    const method = req.method ?? 'GET'
    this.#exchange.write(encodeHead({ method, url, headers, socket: factsOf(req.socket) }))
    this.#timer.start(link.backplane.lease * SILENCE)
    if (hasBody) {
      this.#exchange.write(Buffer.from(body))
      this.#exchange.end()
    } else this.#sendBody()
  }

  #sendBody(): void {
    const req = this.#req
    req.on('data', (chunk: Buffer) => {
      this.#sent += chunk.length
      if (this.#sent > this.#options.maxBodyBytes) return this.#refuse(413, 'body-too-large')
      if (!this.#exchange.write(Uint8Array.from(chunk))) req.pause()
    })
    req.once('end', () => this.#exchange.end())
  }

  // ExchangeUser

  readonly drained = (): void => void this.#req.resume()

  readonly bytes = (bytes: Uint8Array): boolean => {
    if (this.#hasHead) return this.#write(bytes)
    let read
    try {
      read = this.#reader.read(bytes)
    } catch {
      this.#refuse(502, 'endpoint-failed')
    }
    if (read === undefined) return true
    this.#hasHead = true
    this.#timer.stop()
    if (!this.#begin(read.head)) return true
    return read.rest.length === 0 || this.#write(read.rest)
  }

  readonly end = (): void => {
    this.#over()
    this.#res.end()
  }

  readonly broken = (why: 'reset' | 'gone'): void => {
    const wasOver = this.#isOver
    this.#over()
    if (wasOver || !isWritable(this.#res)) return
    this.#options.debug('a relayed request broke off: %s', why)
    if (!this.#hasHead && why === 'gone') return this.#options.gone()
    if (!this.#hasHead && !this.#isWaiting) return refuse(this.#res, 502, 'endpoint-failed')
    const canGoOn = this.#events?.isAtEnd ?? this.#isWaiting
    if (!canGoOn) return void this.#res.destroy()
    if (why === 'gone') void this.#tellGone()
    else this.#res.end()
  }

  /** Its instance is to know that this client has been told, should it live after all. */
  async #tellGone(): Promise<void> {
    const { link, tag, requestIds } = this.#options
    const id = this.#streamId
    const isGone = id === undefined || (await link.declareGone(id, tag))
    const res = this.#res
    if (isGone && isWritable(res)) tellGone(this.#req, res, requestIds)
    else if (isWritable(res)) res.end()
  }

  /** `false`: nothing more of it is wanted. */
  #begin(head: ResponseHead): boolean {
    const res = this.#res
    const { status, headers } = head
    const isStream = isEventStream(head)
    this.#streamId = streamIn(head)
    if (this.#isWaiting && !(status === 200 && isStream)) {
      // It comes again, and is told what it can be told then.
      this.#stop()
      res.end()
      return false
    }
    if (!this.#isWaiting) {
      if (!claim(res)) {
        this.#stop()
        return false
      }
      res.statusCode = status
      for (const [name, value] of headers) res.setHeader(name, value)
      res.flushHeaders()
    }
    if (isStream) this.#listen(head)
    return true
  }

  #listen(head: ResponseHead): void {
    const silences = takesComments(head) ? this.#options.silences : undefined
    this.#events = new PassedEvents(silences, () => {
      if (!this.#res.writableNeedDrain) this.#write(KEEP_ALIVE_COMMENT)
    })
  }

  #write(bytes: Uint8Array): boolean {
    const res = this.#res
    if (!isWritable(res)) return true
    this.#events?.passed(bytes)
    const hasRoom = res.write(bytes)
    ;(res as { flush?: () => void }).flush?.()
    return hasRoom
  }

  /** Nothing has come from the other instance, which may be gone, or out of reach. */
  #silent(): void {
    const { link, keepAlive } = this.#options
    const { lease } = link.backplane
    const res = this.#res
    if (this.#req.method === 'GET' && acceptsEvents(this.#req)) {
      if (!this.#isWaiting && !claim(res)) return
      if (!this.#isWaiting) res.writeHead(200, EVENT_STREAM_HEAD)
      this.#isWaiting = true
      res.write(KEEP_ALIVE_COMMENT)
      return this.#timer.start(Math.min(keepAlive ?? Infinity, lease * SILENCE))
    }
    // An endpoint may take its time, once it has the request.
    if (this.#exchange.isKnown) return
    if (!this.#isLate) {
      this.#isLate = true
      return this.#timer.start(lease * (PATIENCE - SILENCE))
    }
    this.#refuse(503, 'owner-unreachable', { 'Retry-After': '1' })
  }

  #refuse(status: number, fault: StreamFault, headers?: Record<string, string>): void {
    this.#stop()
    if (canAnswer(this.#res)) refuse(this.#res, status, fault, headers)
    this.#req.resume()
  }

  #stop(): void {
    this.#over()
    this.#exchange.reset()
  }

  #over(): void {
    this.#isOver = true
    this.#timer.stop()
    this.#events?.stop()
  }
}

function acceptsEvents(req: IncomingMessage): boolean {
  return headerOf(req, 'accept')?.includes('text/event-stream') === true
}
