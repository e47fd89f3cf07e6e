// The script of the page. It sets text, never markup.
import type { News } from '../feed.js'
import { showPoints } from './chart.js'
import {
  $,
  bytes,
  clock,
  duration,
  List,
  make,
  number,
  setAttribute,
  setText,
  type Shown
} from './elements.js'

type Stats = News['stats']
type Stream = Stats['streams'][number]
type LimitName = keyof Stats['limits']
type Request = News['requests'][number]

const MOST_REQUESTS = 100

let token: string | null = null
let isPaused = false
const requests = new Map<number, Request>()

type Figure = readonly [label: string, value: number | string, note?: string]

const figuresIn = (id: string): List<Figure> =>
  new List<Figure>($(id), ([label]) => label, makeFigure)

function makeFigure([label, , note]: Figure): Shown<Figure> {
  const element = make('div')
  const term = make('dt', '', label)
  const small = make('small')
  const figure = make('dd', 'figure')
  if (note !== undefined) term.append(small)
  element.append(term, figure)
  const update = ([, value, note = '']: Figure): void => {
    setAttribute(element, 'data-value', String(value))
    setText(figure, typeof value === 'number' ? number(value) : value)
    setText(small, note)
  }
  return { element, update }
}

// The parts of the page

const saved = figuresIn('saved')

function showSaved(stats: Stats): void {
  const { recoveries, lostConnections, recoveryTime, upgrades, revivals, idled, repeats } = stats
  const back = recoveries === 0 ? '' : `, back after ${duration(recoveryTime / recoveries)}`
  saved.show([
    [
      'resumed after a cut',
      recoveries,
      `of ${number(lostConnections)} calls that lost their connection${back}`
    ],
    ['slow answers upgraded', upgrades, 'begun before the endpoint had an answer'],
    ['sessions revived', revivals, 'begun again in their client’s name'],
    ['sessions idle', idled, 'ended at the endpoint, until their client is back'],
    ['sent again, run once', repeats, 'repeated under an Idempotency-Key']
  ])
}

const current = figuresIn('now')

function showNow(stats: Stats): void {
  current.show([
    ['running calls', stats.answering],
    ['listen channels', stats.listening],
    ['waiting for their client', stats.waiting],
    ['client away', stats.away],
    ['ended, kept', stats.finished],
    ['connections', stats.connections],
    ['undelivered', bytes(stats.undelivered)]
  ])
}

const STATES = new Map<string, string>([
  ['live', 'running'],
  ['waiting', 'waits for its client']
])

const COLUMNS: readonly (readonly [string, string, (stream: Stream) => string])[] = [
  ['Client', 'client', ({ away }) => (away === undefined ? 'there' : `left ${duration(away)} ago`)],
  ['Age', 'number', ({ age }) => duration(age)],
  ['Events', 'number', ({ events }) => number(events)],
  ['Bytes kept', 'number', stream => bytes(stream.bytes)],
  ['Connections', 'number', ({ connections }) => number(connections)],
  ['Owner', 'name', ({ owner }) => owner ?? '–']
]

const streamRows = new List<Stream>($('streams'), ({ name }) => name, makeStream)

function makeStream({ name }: Stream): Shown<Stream> {
  const element = make('tr')
  const head = make('th', 'name', name)
  head.scope = 'row'
  const state = make('td', 'state')
  const cells = COLUMNS.map(([label, className, textOf]) => {
    const cell = make('td', className)
    cell.dataset['label'] = label
    return { cell, textOf }
  })
  const action = make('td', 'action')
  element.append(head, state, ...cells.map(({ cell }) => cell), action)
  const update = (stream: Stream): void => {
    const isOver = stream.state !== 'live' && stream.state !== 'waiting'
    const isAway = stream.away !== undefined
    const kind = stream.kind === 'listen' && !isOver ? 'listens' : undefined
    setAttribute(element, 'data-state', stream.state)
    setAttribute(element, 'data-away', isAway && !isOver ? 'yes' : 'no')
    setText(state, kind ?? STATES.get(stream.state) ?? stream.state)
    for (const { cell, textOf } of cells) setText(cell, textOf(stream))
    showButton(action, name, token !== null && !isOver && !isAway)
  }
  return { element, update }
}

function showButton(cell: HTMLElement, name: string, isThere: boolean): void {
  const button = cell.firstChild
  if (!isThere) return void button?.remove()
  if (button) return
  const added = make('button', '', 'Cut')
  added.type = 'button'
  added.setAttribute('aria-label', `Cut this connection: ${name}`)
  added.title = 'Cut this connection: its client comes back'
  added.addEventListener('click', () => void cut(name))
  cell.append(added)
}

function showStreams({ streams, live, waiting, finished }: Stats): void {
  streamRows.show(streams)
  const rest = live + waiting + finished - streams.length
  setText($('more'), rest > 0 ? `and ${number(rest)} more, which are older` : '')
}

const LIMITS: Readonly<Record<LimitName, readonly [string, (value: number) => string]>> = {
  maxStreams: ['Streams (maxStreams)', number],
  maxBytes: ['Events and answers (maxBytes)', bytes],
  maxStreamBytes: ['Fullest running stream (maxStreamBytes)', bytes],
  bodies: ['Bodies being read', bytes],
  keyed: ['Answers under an Idempotency-Key', bytes],
  calls: ['Calls with resume tokens', bytes],
  tasks: ['Tasks', bytes]
}

type Limit = readonly [LimitName, { readonly used: number; readonly max: number }]

const limitBars = new List<Limit>($('limits'), ([name]) => name, makeLimit)

function makeLimit([name]: Limit): Shown<Limit> {
  const [title, inWords] = LIMITS[name]
  const element = make('li')
  const label = make('label')
  const text = make('span')
  const bar = make('progress')
  bar.id = `limit-${name}`
  label.htmlFor = bar.id
  label.append(make('span', '', title), text)
  element.append(label, bar)
  const update = ([, { used, max }]: Limit): void => {
    setText(text, `${inWords(used)} of ${inWords(max)}`)
    bar.max = 1
    bar.value = Math.min(1, used / max)
    const level = used >= 0.95 * max ? 'full' : used >= 0.75 * max ? 'high' : 'low'
    setAttribute(bar, 'data-level', level)
  }
  return { element, update }
}

function showLimits(limits: Stats['limits']): void {
  const all = Object.entries(limits) as Limit[]
  const unused = all.filter(([, { used }]) => used === 0).map(([name]) => LIMITS[name][0])
  setText($('unused'), unused.length > 0 ? `At 0: ${unused.join(', ')}` : '')
  limitBars.show(all.filter(([, { used }]) => used > 0))
}

interface Instance {
  readonly tag: string
  readonly text: string
}

const INSTANCE_STATES = { alive: 'alive', gone: 'gone', unknown: 'not known whether it lives' }

const instanceList = new List<Instance>($('instances'), ({ tag }) => tag, makeInstance)

function makeInstance({ tag }: Instance): Shown<Instance> {
  const element = make('li')
  const words = make('span')
  element.append(make('span', 'name', tag), ' ', words)
  return { element, update: ({ text }) => setText(words, text) }
}

function showInstances({ instance, instances, backplane }: Stats): void {
  $('others').hidden = instance === undefined
  if (instance === undefined) return
  const link = backplane.up !== 1 ? 'no connection' : backplane.degraded ? 'slow' : 'connected'
  const own = { tag: instance, text: `this one, backplane: ${link}` }
  const others = instances.map(({ tag, state, heard }) => ({
    tag,
    text:
      INSTANCE_STATES[state] + (heard === undefined ? '' : `, last message ${duration(heard)} ago`)
  }))
  instanceList.show([own, ...others])
}

type Line = readonly [key: string, line: string, className: string]

const requestList = new List<Request>($('requests'), ({ id }) => id, makeRequest)

function makeRequest({ at }: Request): Shown<Request> {
  const element = make('li')
  const time = make('time', '', clock(at))
  time.dateTime = new Date(at).toISOString()
  const verb = make('span', 'method')
  const outcome = make('span', 'outcome')
  const why = make('ul', 'lines')
  element.append(time, verb, outcome, why)
  const reasons = new List<Line>(
    why,
    ([key]) => key,
    ([, line, className]) => ({ element: make('li', className, line), update: () => undefined })
  )
  const update = ({ method, status, took, isBroken, lines }: Request): void => {
    setText(verb, method)
    const after = took === undefined ? 'open' : duration(took)
    const how = took === undefined ? '' : isBroken ? 'cut after ' : `${status ?? '–'} in `
    setText(outcome, method === '' ? '' : how + after)
    const isRefused = status !== undefined && status >= 400
    const kind = isBroken ? 'broken' : isRefused ? 'refused' : 'fine'
    setAttribute(element, 'data-outcome', took === undefined ? 'open' : kind)
    const shown = lines.map((line, i): Line => [i + line, line, ''])
    if (shown.length === 0 && took !== undefined)
      shown.push(['none', 'as the endpoint has answered it', 'none'])
    reasons.show(shown)
  }
  return { element, update }
}

function showRequests(changed: readonly Request[], isWhole: boolean): void {
  if (isWhole) requests.clear()
  for (const request of changed) requests.set(request.id, request)
  const newest = [...requests.values()].sort((a, b) => b.id - a.id)
  for (const { id } of newest.splice(MOST_REQUESTS)) requests.delete(id)
  requestList.show(newest)
}

async function cut(name: string): Promise<void> {
  const done = $('done')
  let isDone = false
  let text
  try {
    const url = `cut?stream=${encodeURIComponent(name)}`
    const answer = await fetch(url, { method: 'POST', headers: { 'X-CSRF-Token': String(token) } })
    isDone = answer.status === 204
    const success = `Cut: the connection of ${name}. Its client comes back.`
    text = isDone ? success : (await answer.text()).trim()
  } catch (error) {
    text = (error as Error).message
  }
  setAttribute(done, 'data-state', isDone ? 'fine' : 'lost')
  setText(done, text)
}

// What comes from the server

function tell(text: string, name: string): void {
  setText($('link'), text)
  setAttribute($('link'), 'data-state', name)
}

function show(news: News): void {
  const { stats } = news
  if (news.isWhole) token = news.token
  showSaved(stats)
  showNow(stats)
  showStreams(stats)
  showLimits(stats.limits)
  showInstances(stats)
  showRequests(news.requests, news.isWhole)
  showPoints(news)
  tell('Live', 'fine')
}

let source: EventSource

function connect(): void {
  source = new EventSource('events')
  source.onmessage = ({ data }) => show(JSON.parse(data as string) as News)
  source.onerror = () => {
    tell('No connection, trying again', 'lost')
    // After an answer that is no event stream, the browser does not come back by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => isPaused || connect(), 3000)
  }
}

$('pause').addEventListener('click', () => {
  isPaused = !isPaused
  $('pause').setAttribute('aria-pressed', String(isPaused))
  source.close()
  if (isPaused) tell('Paused', 'wait')
  else connect()
})

connect()
