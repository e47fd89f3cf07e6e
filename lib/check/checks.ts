// What is checked of an endpoint, one question each, and what the answers mean.
import { setTimeout as pause } from 'node:timers/promises'
import { corsHeaders } from '../access/cors-headers.js'
import { parseEventId } from '../protocol/event-id.js'
import { FIRST_POLLING_REVISION } from '../protocol/revisions.js'
import { discard, type Endpoint, type Greeting } from './endpoint.js'
import { type Block, blocksOf } from './event-stream.js'
import { proxyOf } from './proxy.js'

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

export interface CheckOptions {
  /** Milliseconds of silence after which a comment should have come. */
  readonly keepAlive: number
}

/** Milliseconds within which the first bytes of a stream that stays open must be there. */
const FIRST_BYTES_WITHIN = 2000

/**
 * Looks an endpoint over, finding by finding. Throws `Unusable` where there is nothing to look at.
 */
export async function* check(endpoint: Endpoint, options: CheckOptions): AsyncGenerator<Finding> {
  const greeting = await endpoint.greet()
  const sessions = greeting.sessionId === undefined ? ', without sessions' : ''
  yield ok(`MCP endpoint, revision ${greeting.revision}${sessions}`)
  yield proxyFinding(greeting.head)
  const list = await endpoint.request('tools/list')
  const link = endpoint.linkOf(list)
  let isMounted: boolean | undefined
  if (list.headers.get('content-type')?.startsWith('text/event-stream') !== true) {
    await discard(list)
    yield unknown('answers are JSON: there is no stream to look at in an answer that comes at once')
  } else {
    isMounted = link !== undefined
    yield linkFinding(link)
    const blocks = await read(list)
    yield* idFindings(blocks, link !== undefined)
    if (link !== undefined) yield* resumeFindings(endpoint, greeting, link, blocks)
  }
  yield* corsFindings(endpoint)
  yield* listenFindings(endpoint, greeting, options, isMounted)
}

function linkFinding(link: URL | undefined): Finding {
  return link === undefined
    ? failed('no stream link: the middleware is not mounted, or not in front of the endpoint')
    : ok('stream link in the head')
}

function proxyFinding(head: Headers): Finding {
  const proxy = proxyOf(head)
  return proxy === undefined
    ? ok('no proxy to be seen in front of it')
    : ok(`seems to be behind ${proxy}`)
}

/** Whose the event ids are, and how the first of them looks. */
function* idFindings(blocks: readonly Block[], hasLink: boolean): Generator<Finding> {
  const ids = blocks.flatMap(({ id }) => id ?? [])
  if (ids.some(id => parseEventId(id) === undefined))
    yield failed(
      'foreign event ids: the endpoint has an eventStore, and its streams are left alone ' +
        '(remove it)'
    )
  else if (hasLink) yield ids.length > 0 ? ok('event ids of ours') : failed('no event ids')
}

async function* resumeFindings(
  endpoint: Endpoint,
  { revision }: Greeting,
  link: URL,
  blocks: readonly Block[]
): AsyncGenerator<Finding> {
  yield primerFinding(blocks, revision)
  const [first] = blocks.flatMap(({ id }) => id ?? [])
  if (first === undefined) return
  const expected = messagesIn(blocks)
  const byLink = await endpoint.get(link, { 'Last-Event-ID': first })
  yield resumed('by its link', expected, byLink.status, await read(byLink))
  if (revision > FIRST_POLLING_REVISION) return
  const atEndpoint = await endpoint.get(endpoint.url, { 'Last-Event-ID': first })
  yield resumed(
    'by Last-Event-ID at the endpoint',
    expected,
    atEndpoint.status,
    await read(atEndpoint)
  )
}

/**
 * [2025-11-25, Streamable HTTP] From there on a stream begins with an id and empty data; older
 * clients need a name for it.
 */
function primerFinding([first]: readonly Block[], revision: string): Finding {
  if (first?.id === undefined) return failed('no event id before the first message')
  const isNamed = !first.isMessage
  if (first.data !== '' && !isNamed)
    return failed('the first event is a message: a cut before it could not be resumed')
  const shouldBeNamed = revision < FIRST_POLLING_REVISION
  return isNamed === shouldBeNamed
    ? ok(`a first id, in the form that ${revision} takes`)
    : failed(`the first id is in the form of another revision than ${revision}`)
}

function resumed(how: string, expected: string, status: number, blocks: readonly Block[]): Finding {
  if (status !== 200) return failed(`not resumed ${how}: ${status}`)
  return messagesIn(blocks) === expected
    ? ok(`resumes ${how}`)
    : failed(`resumed ${how}, with other messages`)
}

function messagesIn(blocks: readonly Block[]): string {
  return blocks
    .filter(({ isMessage, data }) => isMessage && data !== undefined && data !== '')
    .map(({ data }) => data)
    .join('\n')
}

async function* corsFindings(endpoint: Endpoint): AsyncGenerator<Finding> {
  const { origin } = endpoint.url
  const preflight = await endpoint.preflight(origin)
  await discard(preflight)
  if (!preflight.headers.has('access-control-allow-origin')) {
    yield unknown('no CORS: pages of other origins cannot use it')
    return
  }
  const answer = await endpoint.request('ping', {}, { Origin: origin })
  await discard(answer)
  const exposed = listOf(answer.headers.get('access-control-expose-headers'))
  const missing = exposed.has('*')
    ? []
    : NEEDED_BY_PAGES.filter(name => !exposed.has(name.toLowerCase()))
  yield missing.length === 0
    ? ok('CORS exposes what pages need')
    : failed(`CORS does not expose ${missing.join(', ')}: use corsHeaders`)
}

/** What clients on pages read of every response; the rest of the list is for resources. */
const NEEDED_BY_PAGES = corsHeaders.exposedHeaders.slice(0, 5)

function listOf(value: string | null): Set<string> {
  return new Set(
    (value ?? '')
      .toLowerCase()
      .split(',')
      .map(name => name.trim())
  )
}

/**
 * What only a stream that stays open shows: whether bytes come through at once, and whether silence
 * is broken.
 */
async function* listenFindings(
  endpoint: Endpoint,
  { revision }: Greeting,
  { keepAlive }: CheckOptions,
  isMounted: boolean | undefined
): AsyncGenerator<Finding> {
  if (revision > FIRST_POLLING_REVISION) {
    yield unknown('first bytes and keep-alive: there is no listen channel to see them on')
    return
  }
  const stop = new AbortController()
  try {
    const opening = endpoint.get(endpoint.url, {}, stop.signal)
    const response = await within(FIRST_BYTES_WITHIN, opening)
    const isRefused = response !== undefined && response.status !== 200
    if (isRefused) {
      await discard(response)
      yield unknown(
        `first bytes and keep-alive: no listen channel to see them on (${response.status})`
      )
      return
    }
    const reader = response?.body?.getReader()
    const first = reader && (await within(FIRST_BYTES_WITHIN, reader.read()))
    if (response !== undefined && isMounted === undefined)
      yield linkFinding(endpoint.linkOf(response))
    if (reader === undefined || first === undefined) {
      const cause = isMounted === true ? ', so something buffers on the way' : ''
      yield failed(`an open stream shows nothing for ${FIRST_BYTES_WITHIN / 1000} s${cause}`)
      return
    }
    yield ok('first bytes of an open stream come through at once')
    yield await keepAliveFinding(reader, keepAlive)
  } finally {
    stop.abort()
  }
}

async function keepAliveFinding(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  keepAlive: number
): Promise<Finding> {
  const begin = performance.now()
  const decoder = new TextDecoder()
  for (;;) {
    const left = keepAlive - (performance.now() - begin)
    const read = left > 0 ? await within(left, reader.read()) : undefined
    if (read === undefined)
      return failed(
        `no comment in ${keepAlive / 1000} s of silence: what cuts idle connections ` +
          'will cut its streams'
      )
    if (read.done) return failed('the open stream was ended, with nobody asking for it')
    if (/(?:^|\n):/.test(decoder.decode(read.value)))
      return ok(`silence is broken after ${Math.round((performance.now() - begin) / 1000)} s`)
  }
}

/** What a promise comes to within so many milliseconds; `undefined`: nothing, so far. */
async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
  // Who stops waiting ends what it waits for, and wants to hear no more of it.
  promise.catch(() => undefined)
  const timer = new AbortController()
  try {
    return await Promise.race([promise, pause(milliseconds, undefined, { signal: timer.signal })])
  } finally {
    timer.abort()
  }
}

async function read(response: Response): Promise<Block[]> {
  const blocks: Block[] = []
  for await (const block of blocksOf(response)) blocks.push(block)
  return blocks
}

const ok = (text: string): Finding => ({ mark: 'ok', text })
const failed = (text: string): Finding => ({ mark: 'failed', text })
const unknown = (text: string): Finding => ({ mark: 'unknown', text })
