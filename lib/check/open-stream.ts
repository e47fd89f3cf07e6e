// Checks on a stream that stays open: whether bytes come through at once, and whether silence is
// broken. It is the listen channel, or a call that takes some time.
import { now } from '../protocol/clock.js'
import { FIRST_POLLING_REVISION } from '../protocol/revisions.js'
import { within } from '../protocol/within.js'
import { discard, isEventStream } from './body.js'
import type { Endpoint, Greeting } from './endpoint.js'
import { failed, type Finding, ok, unknown } from './finding.js'

export interface OpenStreamOptions {
  /** Milliseconds of silence after which a comment should have come. */
  readonly keepAlive: number
  /** A tool to call where there is no listen channel; `undefined`: none. */
  readonly call: Call | undefined
}

export interface Call {
  readonly name: string
  readonly arguments: Record<string, unknown>
}

/** Milliseconds within which the first bytes of an open stream must have come. */
const FIRST_BYTES_WITHIN = 2000

const ENDED = failed('the open stream was ended, with nobody asking for it')

export async function* openStreamFindings(
  endpoint: Endpoint,
  greeting: Greeting,
  { keepAlive, call }: OpenStreamOptions
): AsyncGenerator<Finding> {
  const stop = new AbortController()
  try {
    const opening =
      call === undefined
        ? listen(endpoint, greeting, stop.signal)
        : endpoint.request('tools/call', { ...call }, {}, stop.signal)
    const response = await within(FIRST_BYTES_WITHIN, opening)
    if (response !== undefined && !(response.ok && isEventStream(response))) {
      await discard(response)
      yield unknown(`first bytes and keep-alive: ${absence(response, call)}`)
      return
    }
    const reader = response?.body?.getReader()
    const first = reader && (await within(FIRST_BYTES_WITHIN, reader.read()))
    if (reader === undefined || first === undefined) {
      const seconds = FIRST_BYTES_WITHIN / 1000
      yield failed(
        `an open stream shows nothing for ${seconds} s: something on the way holds it back`
      )
      return
    }
    if (call !== undefined && (first.done || isAnswer(first.value as Uint8Array))) {
      yield unknown(
        'first bytes and keep-alive: the call was over at once, or held back until it was'
      )
      return
    }
    if (first.done) {
      yield ENDED
      return
    }
    yield ok('first bytes of an open stream come through at once')
    yield await keepAliveFinding(reader, keepAlive, call !== undefined)
  } finally {
    stop.abort()
  }
}

/**
 * Opens the listen channel. From 2026-07-28 on there is none: the result is the same as a refusal.
 */
function listen(
  endpoint: Endpoint,
  { revision }: Greeting,
  signal: AbortSignal
): Promise<Response> {
  return revision > FIRST_POLLING_REVISION
    ? Promise.resolve(new Response(null, { status: 405 }))
    : endpoint.get(endpoint.url, {}, signal)
}

function absence({ status }: Response, call: Call | undefined): string {
  return call === undefined
    ? `there is no listen channel to see them on (${status}); --call <tool> calls one of yours ` +
        'that takes longer'
    : `the call was not answered with an event stream (${status})`
}

async function keepAliveFinding(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  keepAlive: number,
  mayEnd: boolean
): Promise<Finding> {
  const begin = now()
  let heard = begin
  const decoder = new TextDecoder()
  for (;;) {
    // Waits for `keepAlive` of silence, and gives up after twice that time if bytes keep coming.
    const until = Math.min(heard, begin + keepAlive) + keepAlive
    const read = await within(Math.max(1, until - now()), reader.read())
    if (read === undefined)
      return heard > begin + keepAlive
        ? unknown('keep-alive: it is never silent')
        : failed(
            `no comment in ${keepAlive / 1000} s of silence: what cuts idle connections ` +
              'will cut its streams'
          )
    if (read.done)
      return mayEnd ? unknown('keep-alive: the call was over before it was silent for long') : ENDED
    const silence = now() - heard
    heard += silence
    if (/(?:^|\n):/.test(decoder.decode(read.value)))
      return ok(`silence is broken after ${Math.round(silence / 1000)} s`)
  }
}

/** Whether the bytes of a call's stream contain its response. */
function isAnswer(bytes: Uint8Array): boolean {
  return /"(?:result|error)":/.test(new TextDecoder().decode(bytes))
}
