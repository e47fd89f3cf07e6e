// The checks of an endpoint, and what their results mean.
import { corsHeaders } from '../access/cors-headers.js'
import { parseEventId } from '../protocol/event-id.js'
import { FIRST_POLLING_REVISION } from '../protocol/revisions.js'
import { type Block, blocksOf, discard, isEventStream } from './body.js'
import { type Endpoint, type Greeting, heardIn, isOfMiddleware } from './endpoint.js'
import {
  failed,
  type Finding,
  ok,
  openStreamFindings,
  type OpenStreamOptions,
  unknown
} from './open-stream.js'
import { quoted } from './unusable.js'

/**
 * Checks an endpoint, and yields its findings one by one.
 *
 * @throws if the endpoint cannot be checked; `endpoint.reasonOf` explains the error.
 */
export async function* check(
  endpoint: Endpoint,
  options: OpenStreamOptions
): AsyncGenerator<Finding> {
  const greeting = await endpoint.greet()
  const sessions = greeting.sessionId === undefined ? ', without sessions' : ''
  yield ok(`MCP endpoint, revision ${quoted(greeting.revision)}${sessions}`)
  yield proxyFinding(greeting.head)
  const isBehindUs = await endpoint.isBehindMiddleware()
  yield isBehindUs
    ? ok('the middleware is in front of it')
    : failed(
        "the middleware is not in front of it: app.use('/mcp', mcpStreams()) on its path, before " +
          'what answers'
      )
  // What comes without the middleware is no fault of its own.
  const isDue = isBehindUs && (yield* answerFindings(endpoint, greeting))
  const modern = await endpoint.alsoSpeaks()
  if (modern !== undefined) {
    yield ok(`it speaks ${modern.revision}, too`)
    if (isBehindUs) yield* answerFindings(endpoint, modern, `${modern.revision}: `)
    endpoint.speaks(greeting)
  }
  if (isBehindUs) yield* corsFindings(endpoint)
  yield* openStreamFindings(endpoint, greeting, isBehindUs, isDue, options)
}

/** Looks at an answer. Returns whether it is a stream of the middleware: it begins at once. */
async function* answerFindings(
  endpoint: Endpoint,
  greeting: Greeting,
  prefix = ''
): AsyncGenerator<Finding, boolean> {
  const list = await endpoint.request('tools/list')
  if (isEventStream(list)) {
    for await (const { mark, text } of streamFindings(endpoint, greeting, list))
      yield { mark, text: prefix + text }
    return endpoint.linkOf(list) !== undefined
  }
  if (list.ok) await discard(list)
  yield unknown(
    list.ok
      ? `${prefix}answers are JSON: there is no stream to look at in an answer that comes at once`
      : `${prefix}tools/list is answered ${list.status}: perhaps there is more to see with ` +
          `--header${(await heardIn(list)).said}`
  )
  return false
}

async function* streamFindings(
  endpoint: Endpoint,
  greeting: Greeting,
  response: Response
): AsyncGenerator<Finding> {
  const link = endpoint.linkOf(response)
  const blocks = await read(response)
  const ids = blocks.flatMap(({ id }) => id ?? [])
  if (ids.some(id => parseEventId(id) === undefined)) {
    yield failed(
      "event ids of another: leave out the option eventStore: 'leave', and mount the middleware " +
        'in front of all that answers'
    )
    return
  }
  if (link === undefined) {
    yield failed(
      'no stream link: this response was left alone; DEBUG=mcp-streams at the server says why'
    )
    return
  }
  yield ok('stream link in the head')
  yield ids.length > 0 ? ok('event ids of ours') : failed(`no event ids${PRIMER}`)
  yield* resumeFindings(endpoint, greeting, link, blocks)
}

function proxyFinding(head: Headers): Finding {
  const proxy = proxyOf(head)
  return proxy === undefined
    ? ok('no proxy to be seen in front of it')
    : ok(`seems to be behind ${proxy}`)
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
  yield await resumed('by its link', expected, byLink)
  if (revision > FIRST_POLLING_REVISION) return
  const atEndpoint = await endpoint.get(endpoint.url, { 'Last-Event-ID': first })
  yield await resumed('by Last-Event-ID at the endpoint', expected, atEndpoint)
}

/** [2025-11-25] From this revision on, a stream begins with an id and empty data. */
function primerFinding([first]: readonly Block[], revision: string): Finding {
  if (first?.id === undefined) return failed(`no event id before the first message${PRIMER}`)
  const isNamed = !first.isMessage
  if (first.data !== '' && !isNamed)
    return failed(`the first event is a message, and a cut before it could not be resumed${PRIMER}`)
  const shouldBeNamed = revision < FIRST_POLLING_REVISION
  const said = quoted(revision)
  return isNamed === shouldBeNamed
    ? ok(`a first id, in the form that ${said} takes`)
    : failed(`the first id is in the form of another revision than ${said}${PRIMER}`)
}

const PRIMER = ': leave out the option primer, or let what is in between pass events on as they are'

async function resumed(how: string, expected: string, response: Response): Promise<Finding> {
  const { status } = response
  if (status !== 200) {
    const { answer, said } = await heardIn(response)
    const isRefused = isOfMiddleware(answer)
    const hint = isRefused ? REFUSED : NOT_FROM_US
    const why = NO_ROUTE.has(status) && !isRefused ? NOT_FOR_GET : hint + said
    return failed(`not resumed ${how}: ${status}${why}`)
  }
  return messagesIn(await read(response)) === expected
    ? ok(`resumes ${how}`)
    : failed(`resumed ${how}, with other messages: let nothing in between cache or change them`)
}

/** What a router answers to a method for which it has nothing. */
const NO_ROUTE: ReadonlySet<number> = new Set([404, 405])
const NOT_FROM_US = ', and not from the middleware'
const NOT_FOR_GET =
  NOT_FROM_US + ': it must get GET and DELETE too (app.use or app.all, not app.post)'
const REFUSED =
  ': set the option backplane if there are several instances, and owner if credentials change'

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
  const allowed = preflight.headers.get('access-control-allow-origin')
  if (allowed === null) {
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
  // Where the preflight's own origin is allowed, it cannot be seen which others are.
  if (allowed === origin) return
  const page = allowed === '*' ? ANY_PAGE : allowed
  if (await endpoint.refusesPagesOf(page))
    yield failed(
      `CORS allows ${quoted(allowed)}, but the option allowedOrigins does not: name it there`
    )
}

/** An origin that no server has named. */
const ANY_PAGE = 'https://any.example'

/** The headers that pages read of every response; the rest of the list is for resources. */
const NEEDED_BY_PAGES = corsHeaders.exposedHeaders.slice(0, 5)

function listOf(value: string | null): Set<string> {
  return new Set(
    (value ?? '')
      .toLowerCase()
      .split(',')
      .map(name => name.trim())
  )
}

async function read(response: Response): Promise<Block[]> {
  const blocks: Block[] = []
  for await (const block of blocksOf(response)) blocks.push(block)
  return blocks
}

/** Headers that identify a proxy, the most specific first. */
const SIGNS: readonly (readonly [name: string, value: RegExp, proxy: string])[] = [
  ['cf-ray', /./, 'Cloudflare'],
  ['x-amz-cf-id', /./, 'Amazon CloudFront'],
  ['x-amz-apigw-id', /./, 'Amazon API Gateway'],
  ['x-azure-ref', /./, 'Azure Front Door'],
  ['x-vercel-id', /./, 'Vercel'],
  ['fly-request-id', /./, 'Fly.io'],
  ['x-railway-request-id', /./, 'Railway'],
  ['x-render-origin-server', /./, 'Render'],
  ['x-served-by', /^cache-/, 'Fastly'],
  ['server', /^nginx/i, 'nginx'],
  ['server', /^openresty/i, 'OpenResty (nginx)'],
  ['server', /^awselb/i, 'an AWS load balancer'],
  ['server', /^caddy/i, 'Caddy'],
  ['server', /^envoy/i, 'Envoy'],
  ['server', /^apache/i, 'Apache'],
  ['via', /\bcaddy\b/i, 'Caddy'],
  ['via', /\bvarnish\b/i, 'Varnish'],
  ['via', /\bheroku-router\b|\bvegur\b/i, 'Heroku'],
  ['via', /\bgoogle\b/i, 'a Google load balancer'],
  ['x-envoy-upstream-service-time', /./, 'Envoy'],
  ['via', /./, 'a proxy that calls itself by "Via"']
]

function proxyOf(head: Headers): string | undefined {
  return SIGNS.find(([name, value]) => value.test(head.get(name) ?? ''))?.[2]
}
