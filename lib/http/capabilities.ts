// Adds to the capabilities that a server declares in its answer to `initialize` or `server/discover`, and changes nothing else.
import type { ServerResponse } from 'node:http'
import { isObject, isResponse, type Message, messagesOf } from '../core/json-rpc.js'
import { dataOf, newFields, readFields } from '../core/sse.js'
import { foldHeaders, headerIn, stringOf } from './response-headers.js'

type AnyMethod = (this: ServerResponse, ...args: unknown[]) => never
type Methods = Record<'writeHead' | 'write' | 'end' | 'flushHeaders', AnyMethod>

/** Bytes of an answer that are looked through; a longer one passes as it is. */
const LONGEST_ANSWER = 1024 * 1024
const NOTHING = Buffer.alloc(0)

/**
 * Adds capabilities to the one result on this response that has any, be it JSON or an event in an event stream; what the endpoint declares
 * itself stays. To be called before the endpoint runs, and after anything else of ours has patched the response.
 */
export function withCapabilities(res: ServerResponse, capabilities: Record<string, unknown>): void {
  new Rewriter(res, capabilities)
}

/**
 * - `undecided`: nothing has been written.
 * - `json`: head and body are held until the body is whole.
 * - `events`: each event is held until it is whole.
 * - `passing`: the rest passes as it is.
 */
type RewriterState = 'undecided' | 'json' | 'events' | 'passing'

class Rewriter {
  #state: RewriterState = 'undecided'
  /** A head that waits for its body. */
  #head: unknown[] | undefined
  #held: Buffer = NOTHING
  readonly #res: ServerResponse
  readonly #capabilities: Record<string, unknown>
  readonly #underneath: Methods

  constructor(res: ServerResponse, capabilities: Record<string, unknown>) {
    const { writeHead, write, end, flushHeaders } = res as unknown as Methods
    this.#res = res
    this.#capabilities = capabilities
    this.#underneath = { writeHead, write, end, flushHeaders }
    const writeHeadHeld = (...args: unknown[]): ServerResponse => this.#writeHead(args)
    const writeHeld = (...args: unknown[]): boolean => this.#write(args)
    const endHeld = (...args: unknown[]): ServerResponse => this.#end(args)
    const flushHeld = (): void => {
      if (this.#state === 'undecided') this.#decide(res.statusCode, undefined)
      if (this.#state !== 'json') this.#underneath.flushHeaders.call(res)
    }
    Object.assign(res, { writeHead: writeHeadHeld, write: writeHeld, end: endHeld, flushHeaders: flushHeld })
  }

  #decide(status: unknown, given: unknown): void {
    const header = (name: string): string => headerIn(given, name) ?? stringOf(this.#res.getHeader(name)) ?? ''
    const [type = ''] = header('content-type').toLowerCase().split(';')
    const isPlain = ['', 'identity'].includes(header('content-encoding'))
    if (Number(status) !== 200 || !isPlain) this.#state = 'passing'
    else if (type.trim() === 'application/json') this.#state = 'json'
    else this.#state = type.trim() === 'text/event-stream' ? 'events' : 'passing'
  }

  #writeHead(args: unknown[]): ServerResponse {
    const [status, reason, last] = args
    if (this.#state === 'undecided') this.#decide(status, typeof reason === 'string' ? last : (last ?? reason))
    if (this.#state !== 'json') return this.#underneath.writeHead.apply(this.#res, args)
    this.#head = args
    return this.#res
  }

  #write(args: unknown[]): boolean {
    if (this.#state === 'undecided') this.#decide(this.#res.statusCode, undefined)
    const bytes = this.#state === 'passing' ? undefined : bytesOf(args)
    if (bytes === undefined) return this.#underneath.write.apply(this.#res, args)
    this.#held = Buffer.concat([this.#held, bytes])
    let ready = this.#state === 'events' ? this.#wholeEvents() : NOTHING
    if (this.#held.length > LONGEST_ANSWER) ready = Buffer.concat([ready, this.#pass()])
    const callback = args.find(argument => typeof argument === 'function') as (() => void) | undefined
    if (ready.length > 0) return this.#underneath.write.call(this.#res, ready, callback)
    if (callback !== undefined) process.nextTick(callback)
    return true
  }

  #end(args: unknown[]): ServerResponse {
    if (this.#state === 'undecided') this.#decide(this.#res.statusCode, undefined)
    const last = this.#state === 'passing' ? undefined : bytesOf(args)
    const isEmpty = typeof args[0] === 'function' || args[0] === undefined || args[0] === null
    if (this.#state === 'passing' || (last === undefined && !isEmpty))
      return this.#underneath.end.apply(this.#res, args)
    this.#held = Buffer.concat([this.#held, last ?? NOTHING])
    const isShort = this.#held.length <= LONGEST_ANSWER
    const ready = !isShort ? NOTHING : this.#state === 'json' ? this.#wholeJson() : this.#wholeEvents()
    const body = Buffer.concat([ready, this.#pass()])
    const callback = args.find(argument => typeof argument === 'function')
    return this.#underneath.end.call(this.#res, body.length === 0 ? undefined : body, callback)
  }

  /** What is held, and no more holding. */
  #pass(): Buffer {
    this.#state = 'passing'
    const held = this.#held
    this.#held = NOTHING
    const head = this.#head
    this.#head = undefined
    if (head !== undefined) this.#underneath.writeHead.apply(this.#res, head)
    return held
  }

  /** Rewrites the body of a JSON answer, and its length in its head. It stays held, as its head does. */
  #wholeJson(): Buffer {
    const rewritten = this.#rewritten(this.#held.toString('utf8'))
    if (rewritten === undefined) return NOTHING
    const body = Buffer.from(rewritten)
    const [status, reason, last] = this.#head ?? []
    if (this.#head !== undefined) {
      const setHeader = this.#res.setHeader.bind(this.#res)
      foldHeaders(this.#res, setHeader, typeof reason === 'string' ? last : (last ?? reason))
      this.#head = typeof reason === 'string' ? [status, reason] : [status]
    }
    if (this.#res.hasHeader('Content-Length')) this.#res.setHeader('Content-Length', body.length)
    this.#held = body
    return NOTHING
  }

  /** Takes the events out that have come whole, the one with the result rewritten. */
  #wholeEvents(): Buffer {
    // One character a byte, so that offsets are those of the bytes.
    const text = this.#held.toString('latin1')
    const ready: Buffer[] = []
    let from = 0
    for (const { index, 0: blankLine } of text.matchAll(/\r\n\r\n|\n\n|\r\r/g)) {
      const to = index + blankLine.length
      const block = this.#held.subarray(from, to)
      const rewritten = this.#rewrittenEvent(block)
      ready.push(rewritten ?? block)
      from = to
      if (rewritten === undefined) continue
      this.#held = this.#held.subarray(from)
      return Buffer.concat([...ready, this.#pass()])
    }
    this.#held = this.#held.subarray(from)
    return Buffer.concat(ready)
  }

  #rewrittenEvent(block: Buffer): Buffer | undefined {
    const bytes = Buffer.from(
      block
        .toString('utf8')
        .replace(/^\ufeff/, '')
        .replaceAll(/\r\n?/g, '\n')
    )
    const fields = newFields()
    const to = readFields(bytes, 0, fields)
    if (to < 0 || fields.dataLines === 0 || !fields.isMessage) return undefined
    const json = this.#rewritten(dataOf(bytes, 0, to, fields))
    if (json === undefined) return undefined
    const others = bytes
      .subarray(0, to)
      .toString('utf8')
      .split('\n')
      .filter(line => line !== '' && !/^data(?::|$)/.test(line))
    return Buffer.from([...others, `data: ${json}`, '', ''].join('\n'))
  }

  /** The JSON with the capabilities added; `undefined`: there is no result in it that has any. */
  #rewritten(text: string): string | undefined {
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      return undefined
    }
    const result = messagesOf(body).filter(isResponse).map(resultOf).find(isObject)
    if (result === undefined) return undefined
    result['capabilities'] = merged(result['capabilities'] as Record<string, unknown>, this.#capabilities)
    return JSON.stringify(body)
  }
}

/** A result that declares capabilities. */
function resultOf({ result }: Message): Record<string, unknown> | undefined {
  return isObject(result) && isObject(result['capabilities']) ? result : undefined
}

/** What is in `own` stays as it is. */
function merged(own: Record<string, unknown>, added: Record<string, unknown>): Record<string, unknown> {
  const all = { ...own }
  for (const [name, value] of Object.entries(added)) {
    const present = own[name]
    if (present === undefined) all[name] = value
    else if (isObject(present) && isObject(value)) all[name] = merged(present, value)
  }
  return all
}

function bytesOf([chunk, encoding]: unknown[]): Buffer | undefined {
  if (typeof chunk === 'string')
    return Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
  return chunk instanceof Uint8Array ? Buffer.from(chunk) : undefined
}
