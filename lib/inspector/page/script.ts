// The script of the page. It sets text, never markup.
import type { News } from '../feed.js'

type Stats = News['stats']
type Stream = Stats['streams'][number]
type LimitName = keyof Stats['limits']
type Request = News['requests'][number]
type Point = News['points'][number]

const $ = (id: string): HTMLElement => document.getElementById(id)!
const chart = document.querySelector('svg')!
const SPAN = 15 * 60 * 1000
const MOST_REQUESTS = 100
// Of points of the chart that are further apart, nothing is known in between.
const GAP = 15_000
const BARS = 30

let token: string | null = null
let isPaused = false
let now = 0
let points: readonly Point[] = []
const requests = new Map<number, Request>()

// What is shown, in words

const number = (value: number): string => value.toLocaleString('en')

function bytes(value: number): string {
  const units = ['B', 'KB', 'MB', 'GB']
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`
  if (ms < 172_800_000) return `${(ms / 3_600_000).toFixed(1)} h`
  return `${Math.floor(ms / 86_400_000)} days`
}

const clock = (at: number): string => new Date(at).toLocaleTimeString('en-GB')

// How it is put into the page

function make<T extends keyof HTMLElementTagNameMap>(
  tag: T,
  className = '',
  text = ''
): HTMLElementTagNameMap[T] {
  const element = document.createElement(tag)
  if (className) element.className = className
  element.textContent = text
  return element
}

/** Only what is new: whoever has selected something, or has the focus there, keeps it. */
function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

function setAttribute(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value)
}

/** An item of a list on the page, and what brings it up to date. */
interface Shown<T> {
  readonly element: HTMLElement
  readonly update: (item: T) => void
}

/** Keeps the children of an element in the order of what they show, and keeps those that stay. */
class List<T> {
  readonly #parent: HTMLElement
  readonly #keyOf: (item: T) => string | number
  readonly #create: (item: T) => Shown<T>
  #shown = new Map<string | number, Shown<T>>()

  constructor(
    parent: HTMLElement,
    keyOf: (item: T) => string | number,
    create: (item: T) => Shown<T>
  ) {
    this.#parent = parent
    this.#keyOf = keyOf
    this.#create = create
  }

  show(items: readonly T[]): void {
    const before = this.#shown
    this.#shown = new Map()
    let next: Element | null = null
    for (const item of items.toReversed()) {
      const key = this.#keyOf(item)
      const shown = before.get(key) ?? this.#create(item)
      before.delete(key)
      this.#shown.set(key, shown)
      const { element, update } = shown
      update(item)
      if (element.parentNode !== this.#parent || element.nextSibling !== next)
        this.#parent.insertBefore(element, next)
      next = element
    }
    for (const { element } of before.values()) element.remove()
  }
}

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

// The chart

type Add = (
  tag: string,
  attributes: Readonly<Record<string, string | number>>,
  text?: string
) => void

function draw(): void {
  const width = chart.clientWidth
  const height = chart.clientHeight
  const shown = points.filter(point => point.at > now - SPAN)
  const most = Math.max(4, ...shown.flatMap(({ running, waiting }) => [running, waiting]))
  const floor = height - 72
  const x = (time: number): number => Math.round(((time - now + SPAN) / SPAN) * width * 10) / 10
  const y = (value: number): number => Math.round((floor - (value / most) * (floor - 16)) * 10) / 10
  const parts: Element[] = []
  const add: Add = (tag, attributes, text = '') => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value))
    element.textContent = text
    parts.push(element)
  }
  add('line', { class: 'grid', x1: 0, x2: width, y1: y(most), y2: y(most) })
  add('line', { class: 'axis', x1: 0, x2: width, y1: floor, y2: floor })
  add('text', { x: 0, y: 11 }, number(most))

  for (const run of unbroken(shown)) {
    const line = (name: 'running' | 'waiting'): string =>
      run.map(point => `${x(point.at)},${y(point[name])}`).join(' ')
    const [left, right] = [run.at(0), run.at(-1)].map(end => `${x(end!.at)},${floor}`)
    add('polygon', { class: 'area', points: `${left} ${line('running')} ${right}` })
    add('polyline', { class: 'running', points: line('running') })
    if (run.some(({ waiting }) => waiting > 0))
      add('polyline', { class: 'waiting', points: line('waiting') })
  }
  drawBars(shown, { width, top: floor + 8, bottom: height - 22 }, add)
  add('text', { x: 0, y: height - 4 }, '15 min ago')
  add('text', { class: 'middle', x: width / 2, y: height - 4 }, '7½ min')
  add('text', { class: 'end', x: width, y: height - 4 }, 'now')
  chart.replaceChildren(...parts)
  tellChart(shown)
}

/** Where nobody has looked, nothing is known. */
function unbroken(points: readonly Point[]): Point[][] {
  const runs: Point[][] = []
  let last = -Infinity
  for (const point of points) {
    if (point.at - last > GAP) runs.push([])
    runs.at(-1)?.push(point)
    last = point.at
  }
  return runs
}

const COUNTED = ['cuts', 'mended', 'failed'] as const

/** What has happened since the point before, in each thirtieth of the time. */
function drawBars(
  points: readonly Point[],
  { width, top, bottom }: { width: number; top: number; bottom: number },
  add: Add
): void {
  const bars = Array.from({ length: BARS }, () => ({ cuts: 0, mended: 0, failed: 0 }))
  points.forEach((point, i) => {
    const before = points[i - 1]
    const bar = bars[Math.min(BARS - 1, Math.floor(((point.at - now + SPAN) / SPAN) * BARS))]
    if (before === undefined || bar === undefined) return
    for (const name of COUNTED) bar[name] += Math.max(0, point[name] - before[name])
  })
  const most = Math.max(4, ...bars.flatMap(bar => COUNTED.map(name => bar[name])))
  const step = width / BARS
  const thick = Math.max(2, (step - 3) / COUNTED.length)
  bars.forEach((bar, i) =>
    COUNTED.forEach((name, j) => {
      if (bar[name] === 0) return
      const height = Math.max(3, (bar[name] / most) * (bottom - top))
      const x = i * step + 1 + j * thick
      add('rect', { class: name, rx: 1, x, y: bottom - height, width: thick - 0.5, height })
    })
  )
  add('line', { class: 'grid', x1: 0, x2: width, y1: bottom, y2: bottom })
}

function tellChart(points: readonly Point[]): void {
  const first = points.at(0)
  const last = points.at(-1)
  if (first === undefined || last === undefined) return
  const since = ` since ${clock(first.at)}`
  const isYoung = now - first.at < SPAN - 60_000
  const one = 'One point so far, the next in five seconds:'
  const drawn = points.length === 1 ? one : 'Drawn while this page is open:'
  setText($('since'), isYoung ? drawn + since : '')
  const [cuts, mended, failed] = COUNTED.map(name => last[name] - first[name])
  const label =
    `${last.running} calls run, ${last.waiting} wait;${since} ${cuts} connections were lost, ` +
    `${mended} clients came back, ${failed} streams failed`
  setAttribute(chart, 'aria-label', label)
}

// What comes from the server

function tell(text: string, name: string): void {
  setText($('link'), text)
  setAttribute($('link'), 'data-state', name)
}

function show(news: News): void {
  const { at, stats } = news
  if (news.isWhole) {
    token = news.token
    points = []
  }
  now = at
  points = [...points, ...news.points].filter(point => point.at > at - SPAN)
  showSaved(stats)
  showNow(stats)
  showStreams(stats)
  showLimits(stats.limits)
  showInstances(stats)
  showRequests(news.requests, news.isWhole)
  if (news.points.length > 0) draw()
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

new ResizeObserver(draw).observe(chart)
connect()
