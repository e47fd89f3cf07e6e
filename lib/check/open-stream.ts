// Checks on a stream that stays open: the listen channel, or a call that takes some time.
import { now, within } from '../protocol/clock.js'
import { FIRST_POLLING_REVISION } from '../protocol/revisions.js'
import { isObject } from '../protocol/json-rpc.js'
import { discard, isEventStream } from './body.js'
import { type Answer, type Endpoint, type Greeting, heardIn, resultIn } from './endpoint.js'
import { hasBrokenOff, quoted } from './unusable.js'

/**
 * - `ok`: as it should be.
 * - `failed`: a client will suffer from it.
 * - `unknown`: could not be seen here.
 */
export type Mark = 'ok' | 'failed' | 'unknown'

export interface Finding {
  readonly mark: Mark
  readonly text: string
}

export const ok = (text: string): Finding => ({ mark: 'ok', text })
export const failed = (text: string): Finding => ({ mark: 'failed', text })
export const unknown = (text: string): Finding => ({ mark: 'unknown', text })

export interface OpenStreamOptions {
  /** Milliseconds of silence after which a comment should have come. */
  readonly keepAlive: number
  /** A tool to call where there is no listen channel; `undefined`: none. */
  readonly call: ToolCall | undefined
}

export interface ToolCall {
  readonly name: string
  readonly arguments: Record<string, unknown>
}

/** Milliseconds within which the first bytes of an open stream must have come. */
const FIRST_BYTES_WITHIN = 2000

const ENDED = failed(
  'the open stream was ended, with nobody asking for it: let the endpoint keep its GET open, ' +
    'and what is in between, too'
)

/**
 * @param isBehindUs whether comments are to be expected.
 * @param isDue whether a stream begins at once, even if the endpoint writes nothing.
 */
export async function* openStreamFindings(
  endpoint: Endpoint,
  greeting: Greeting,
  isBehindUs: boolean,
  isDue: boolean,
  { keepAlive, call }: OpenStreamOptions
): AsyncGenerator<Finding> {
  const stop = new AbortController()
  try {
    const stream = new OpenStream(
      call === undefined
        ? listen(endpoint, greeting, stop.signal)
        : endpoint.request('tools/call', { ...call }, {}, stop.signal)
    )
    const response = await stream.opened(FIRST_BYTES_WITHIN)
    if (response instanceof Response && !(response.ok && isEventStream(response))) {
      const why = unknown(`${NOT_SEEN}: ${absence(response, call)}`)
      yield (await failureOf(response, call)) ?? why
      return
    }
    const first = response && (await stream.next(FIRST_BYTES_WITHIN))
    if (first === undefined) {
      const mustBegin = response === undefined ? isDue : stream.isLinkedAt(endpoint)
      yield mustBegin ? HELD_BACK : QUIET
    } else if (first === 'cut') yield stream.cutFinding()
    else if (call !== undefined && (first === 'end' || isAnswer(first)))
      yield (await failureOf(stream.heard, call)) ?? OVER
    else if (first === 'end') yield ENDED
    else {
      yield ok('first bytes of an open stream come through at once')
      const finding = await keepAliveFinding(stream, keepAlive, isBehindUs, call !== undefined)
      yield (await failureOf(stream.heard, call)) ?? finding
    }
  } finally {
    stop.abort()
  }
}

const NOT_SEEN = 'first bytes and keep-alive'
const OVER = unknown(`${NOT_SEEN}: the call was over at once, or held back until it was`)
const SHOWN = `${FIRST_BYTES_WITHIN / 1000} s`
const HELD_BACK = failed(
  `an open stream shows nothing for ${SHOWN}: something on the way holds it back; turn its ` +
    'buffering off (HAProxy: option http-no-delay)'
)
const QUIET = unknown(
  `${NOT_SEEN}: nothing is written to an open stream for ${SHOWN}, or gets through`
)

/** Bytes that are kept of an open stream: those of a call that fails are few. */
const KEPT = 1024 * 1024

/** A stream that stays open, as far as it has come. */
class OpenStream {
  readonly #opening: Promise<Response>
  #head: Response | undefined
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  readonly #pieces: Uint8Array[] = []
  #size = 0
  readonly #begin = now()
  /** When something has come last. */
  heardAt = this.#begin

  constructor(opening: Promise<Response>) {
    this.#opening = opening
  }

  /** The head; `undefined`: it has not come in time. */
  opened(time: number): Promise<Response | 'cut' | undefined> {
    return within(time, this.#open().catch(whyCut))
  }

  async #open(): Promise<Response> {
    const response = (this.#head = await this.#opening)
    if (response.ok && isEventStream(response)) this.#reader = response.body?.getReader()
    return response
  }

  /** What comes next; `undefined`: nothing has in time. */
  async next(time: number): Promise<Uint8Array | 'end' | 'cut' | undefined> {
    if (this.#reader === undefined) return 'cut'
    const read = await within(time, this.#reader.read().catch(whyCut))
    if (read === undefined || read === 'cut') return read
    if (read.done) return 'end'
    this.heardAt = now()
    if (this.#size < KEPT) this.#pieces.push(read.value)
    this.#size += read.value.length
    return read.value
  }

  /** Whether its head names a stream of the middleware. */
  isLinkedAt(endpoint: Endpoint): boolean {
    return this.#head !== undefined && endpoint.linkOf(this.#head) !== undefined
  }

  /** What has come first, as a response that is whole. */
  get heard(): Response {
    return new Response(Buffer.concat(this.#pieces), { headers: this.#head?.headers ?? {} })
  }

  cutFinding(): Finding {
    const at = now()
    const silence = at - this.heardAt
    const isSilent = silence > SHORT_SILENCE
    const remedy = isSilent
      ? `${seconds(silence)} of silence: set keepAlive below that, or disconnectAfter`
      : `${seconds(at - this.#begin)}, though it is not silent: set disconnectAfter below that`
    return failed(`an open stream is cut after ${remedy}`)
  }
}

/** Milliseconds after which what is cut may be cut because it is silent. */
const SHORT_SILENCE = 1000

const seconds = (milliseconds: number): string => `${Math.round(milliseconds / 100) / 10} s`

/** @throws what is no fault of the connection. */
function whyCut(error: unknown): 'cut' {
  if (hasBrokenOff(error)) return 'cut'
  throw error
}

/** Opens the listen channel. From 2026-07-28 on there is none, which is as a refusal. */
function listen(
  endpoint: Endpoint,
  { revision }: Greeting,
  signal: AbortSignal
): Promise<Response> {
  return revision > FIRST_POLLING_REVISION
    ? Promise.resolve(new Response(null, { status: 405 }))
    : endpoint.get(endpoint.url, {}, signal)
}

function absence({ status }: Response, call: ToolCall | undefined): string {
  return call === undefined
    ? `there is no listen channel to see them on (${status}); --call <tool> calls one of yours ` +
        'that takes longer'
    : `the call was not answered with an event stream (${status})`
}

async function keepAliveFinding(
  stream: OpenStream,
  keepAlive: number,
  isBehindUs: boolean,
  mayEnd: boolean
): Promise<Finding> {
  const begin = now()
  const none = `no comment in ${keepAlive / 1000} s of silence`
  const decoder = new TextDecoder()
  for (;;) {
    // Waits for `keepAlive` of silence, and gives up after twice that time if bytes keep coming.
    const { heardAt } = stream
    const until = Math.min(heardAt, begin + keepAlive) + keepAlive
    const read = await stream.next(Math.max(1, until - now()))
    if (read === undefined)
      return heardAt > begin + keepAlive
        ? unknown('keep-alive: it is never silent')
        : isBehindUs
          ? failed(`${none}, so what cuts idle connections cuts streams: set keepAlive below that`)
          : unknown(`keep-alive: ${none}`)
    if (read === 'cut') return stream.cutFinding()
    if (read === 'end')
      return mayEnd ? unknown('keep-alive: the call was over before it was silent for long') : ENDED
    if (/(?:^|\n):/.test(decoder.decode(read)))
      return ok(`silence is broken after ${Math.round((stream.heardAt - heardAt) / 1000)} s`)
  }
}

/** Whether the bytes of a call's stream contain its response. */
function isAnswer(bytes: Uint8Array): boolean {
  return /"(?:result|error)":/.test(new TextDecoder().decode(bytes))
}

/** What is wrong with a call that has been answered; `undefined`: nothing, or it is none. */
async function failureOf(
  response: Response,
  call: ToolCall | undefined
): Promise<Finding | undefined> {
  if (call === undefined) {
    await discard(response)
    return undefined
  }
  const heard = await within(FIRST_BYTES_WITHIN, heardIn(response))
  const why = failureIn(heard?.answer ?? {})
  if (why === undefined && heard?.said)
    return unknown(`${NOT_SEEN}: ${absence(response, call)}${heard.said}`)
  if (why === undefined) return undefined
  const remedy = 'give --call a tool that there is, and --arguments that it takes'
  return failed(`the call of "${quoted(call.name)}" fails: "${quoted(why)}"; ${remedy}`)
}

/** The error of a response, or that of a tool. */
function failureIn(answer: Answer): string | undefined {
  const { error } = answer
  if (isObject(error)) return String(error['message'])
  const { isError, content } = resultIn(answer) ?? {}
  if (isError !== true) return undefined
  const [first] = Array.isArray(content) ? (content as unknown[]) : []
  return isObject(first) && typeof first['text'] === 'string' ? first['text'] : 'it says no more'
}
