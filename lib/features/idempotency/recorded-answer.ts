// Records an answer while it is given, and gives it again.
import type { ServerResponse } from 'node:http'
import type { KeyedCall, RecordedAnswer, RecordedRun } from '../../endpoint/keyed-call.js'
import { BodyWatch } from '../../http/body-watch.js'
import { claim } from '../../http/reply.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { foldHeaders, headersIn } from '../../http/response-headers.js'
import { responseSink } from '../../endpoint/response-sink.js'

type RecordedHead = Pick<RecordedAnswer, 'status' | 'headers'>

/** A call whose answer is recorded. */
export interface RecordedCall extends KeyedCall {
  /** More of its answer is recorded. `false`: there is no room for it. */
  grow(bytes: number): boolean
}

export class AnswerRecorder extends BodyWatch {
  readonly #call: RecordedCall
  readonly #res: ServerResponse
  readonly #run: RecordedRun
  #head: RecordedHead | undefined

  constructor(call: RecordedCall, res: ServerResponse, run: RecordedRun) {
    super()
    this.#call = call
    this.#res = res
    this.#run = run
  }

  override head(args: readonly unknown[]): void {
    if (!this.#call.isSettled) this.#head = this.#read(args[0], headersIn(args))
  }

  override destroyed(): void {
    this.#call.abandon()
  }

  override stop(): void {
    this.#head = undefined
    super.stop()
  }

  protected mayKeep(_size: number, more: number): boolean {
    const hasRoom = this.#call.grow(more)
    if (!hasRoom) process.nextTick(() => this.#call.giveUp())
    return hasRoom
  }

  protected whole(body: Buffer): void {
    process.nextTick(() => this.#settle(body))
  }

  /** @param status as Node takes it: a number, or digits. */
  #read(status: unknown, given?: unknown): RecordedHead {
    // Before anything in front of us, such as compression, adds its own.
    const headers = { ...this.#res.getHeaders() }
    foldHeaders(given, {
      setHeader: (name, value) => (headers[name.toLowerCase()] = value)
    })
    return { status: Number(status), headers }
  }

  /** Only now is it known whether a response without an explicit head is a stream. */
  #settle(body: Buffer): void {
    if (this.#call.isSettled) return
    const head = this.#head ?? this.#read(this.#res.statusCode)
    this.#call.settle({ kind: 'answer', ...head, body })
    this.#run.untakenEnded()
  }
}

const OF_FIRST_BODY = /^(?:content-length|trailer|transfer-encoding)$/i
const WITHOUT_BODY = [204, 304]

/** Gives a recorded answer again. */
export function repeatAnswer(
  { instance, req, res, owner }: RequestContext,
  { status, headers, body }: RecordedAnswer
): void {
  if (!claim(res)) return
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !OF_FIRST_BODY.test(name)) res.setHeader(name, value)
  // Without a length, the body would end with the connection, and a cut would look like its end.
  if (status >= 200 && !WITHOUT_BODY.includes(status)) res.setHeader('Content-Length', body.length)
  res.writeHead(status)
  // All that it is given to share its bytes.
  const answer = { key: body, parts: [body] }
  instance.connections.outgoing.write(responseSink(req, res), owner, answer)
}
