// The script of the page: plain JavaScript for browsers, which is served as it stands here. It sets
// text, never markup.

export const SCRIPT = /* JS */ `const $ = id => document.getElementById(id)
const SPAN = 15 * 60 * 1000
const MOST_REQUESTS = 100
// Of points of the chart that are further apart, nothing is known in between.
const GAP = 15_000
const BARS = 30

const state = { token: null, isPaused: false, points: [], at: 0 }
const requests = new Map()
const SVG = 'http://www.w3.org/2000/svg'

// What is shown, in words

const number = value => value.toLocaleString('en')

function bytes(value) {
  const units = ['B', 'KB', 'MB', 'GB']
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) ((value /= 1024), unit++)
  return (unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)) + ' ' + units[unit]
}

function duration(ms) {
  if (ms < 1000) return Math.round(ms) + ' ms'
  if (ms < 60_000) return (ms / 1000).toFixed(ms < 10_000 ? 1 : 0) + ' s'
  if (ms < 3_600_000) return Math.floor(ms / 60_000) + ' min'
  if (ms < 172_800_000) return (ms / 3_600_000).toFixed(1) + ' h'
  return Math.floor(ms / 86_400_000) + ' days'
}

const clock = at => new Date(at).toLocaleTimeString('en-GB')

// How it is put into the page

function make(tag, className, text) {
  const element = document.createElement(tag)
  if (className) element.className = className
  if (text !== undefined) element.textContent = text
  return element
}

/** Only what is new: whoever has selected something, or has the focus there, keeps it. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
}

function setData(element, name, value) {
  if (element.dataset[name] !== value) element.dataset[name] = value
}

/** Keeps the children of a list in the order of what they show, and keeps those that stay. */
function list(parent, items, keyOf, create, update) {
  const known = new Map([...parent.children].map(child => [child.dataset.key, child]))
  let before = null
  for (const item of [...items].reverse()) {
    const key = String(keyOf(item))
    const child = known.get(key) ?? create(item)
    child.dataset.key = key
    known.delete(key)
    update(child, item)
    if (child.parentNode !== parent || child.nextSibling !== before)
      parent.insertBefore(child, before)
    before = child
  }
  for (const child of known.values()) child.remove()
}

function figures(parent, entries) {
  list(
    parent,
    entries,
    ([label]) => label,
    ([label, , note]) => {
      const entry = make('div')
      const term = make('dt', '', label)
      if (note !== undefined) term.append(make('small'))
      entry.append(term, make('dd', 'figure'))
      return entry
    },
    (entry, [, value, note]) => {
      setData(entry, 'value', String(value))
      setText(entry.lastChild, typeof value === 'number' ? number(value) : value)
      if (note !== undefined) setText(entry.querySelector('small'), note)
    }
  )
}

// The parts of the page

function showSaved(stats) {
  const { recoveries, lostConnections, recoveryTime, upgrades, revivals, idled, repeats } = stats
  const back = recoveries === 0 ? '' : ', back after ' + duration(recoveryTime / recoveries)
  figures($('saved'), [
    [
      'resumed after a cut',
      recoveries,
      'of ' + number(lostConnections) + ' calls that lost their connection' + back
    ],
    ['slow answers upgraded', upgrades, 'begun before the endpoint had an answer'],
    ['sessions revived', revivals, 'begun again in their client’s name'],
    ['sessions idle', idled, 'ended at the endpoint, until their client is back'],
    ['sent again, run once', repeats, 'repeated under an Idempotency-Key']
  ])
}

function showNow(stats) {
  figures($('now'), [
    ['running calls', stats.answering],
    ['listen channels', stats.listening],
    ['waiting for their client', stats.waiting],
    ['client away', stats.away],
    ['ended, kept', stats.finished],
    ['connections', stats.connections],
    ['undelivered', bytes(stats.undelivered)]
  ])
}

const STATES = { live: 'running', waiting: 'waits for its client' }

const COLUMNS = [
  [
    'Client',
    'client',
    ({ away }) => (away === undefined ? 'there' : 'left ' + duration(away) + ' ago')
  ],
  ['Age', 'number', ({ age }) => duration(age)],
  ['Events', 'number', ({ events }) => number(events)],
  ['Bytes kept', 'number', stream => bytes(stream.bytes)],
  ['Connections', 'number', ({ connections }) => number(connections)],
  ['Owner', 'name', ({ owner }) => owner ?? '–']
]

function makeStream({ name }) {
  const row = make('tr')
  const head = make('th', 'name', name)
  head.scope = 'row'
  row.append(head, make('td', 'state'))
  for (const [label, className] of COLUMNS) {
    const cell = make('td', className)
    cell.dataset.label = label
    row.append(cell)
  }
  row.append(make('td', 'action'))
  return row
}

function updateStream(row, stream) {
  const isOver = stream.state !== 'live' && stream.state !== 'waiting'
  const isAway = stream.away !== undefined
  const kind = stream.kind === 'listen' && !isOver ? 'listens' : undefined
  setData(row, 'state', stream.state)
  setData(row, 'away', isAway && !isOver ? 'yes' : 'no')
  setText(row.children[1], kind ?? STATES[stream.state] ?? stream.state)
  COLUMNS.forEach(([, , textOf], i) => setText(row.children[i + 2], textOf(stream)))
  showButton(row.lastChild, stream.name, state.token !== null && !isOver && !isAway)
}

function showButton(cell, name, isThere) {
  const button = cell.firstChild
  if (!isThere) return void button?.remove()
  if (button) return
  const added = make('button', '', 'Cut')
  added.type = 'button'
  added.setAttribute('aria-label', 'Cut this connection: ' + name)
  added.title = 'Cut this connection: its client comes back'
  added.addEventListener('click', () => cut(name))
  cell.append(added)
}

function showStreams({ streams, live, waiting, finished }) {
  list($('streams'), streams, ({ name }) => name, makeStream, updateStream)
  const rest = live + waiting + finished - streams.length
  setText($('more'), rest > 0 ? 'and ' + number(rest) + ' more, which are older' : '')
}

const LIMITS = {
  maxStreams: ['Streams (maxStreams)', number],
  maxBytes: ['Events and answers (maxBytes)', bytes],
  maxStreamBytes: ['Fullest running stream (maxStreamBytes)', bytes],
  bodies: ['Bodies being read', bytes],
  keyed: ['Answers under an Idempotency-Key', bytes],
  calls: ['Calls with resume tokens', bytes],
  tasks: ['Tasks', bytes]
}

const nameOf = limit => (LIMITS[limit] ?? [limit])[0]

function showLimits(limits) {
  const all = Object.entries(limits)
  const unused = all.filter(([, { used }]) => used === 0).map(([name]) => nameOf(name))
  setText($('unused'), unused.length > 0 ? 'At 0: ' + unused.join(', ') : '')
  list(
    $('limits'),
    all.filter(([, { used }]) => used > 0),
    ([name]) => name,
    ([name]) => {
      const entry = make('li')
      const label = make('label')
      label.htmlFor = 'limit-' + name
      label.append(make('span', '', nameOf(name)), make('span'))
      const bar = make('progress')
      bar.id = label.htmlFor
      entry.append(label, bar)
      return entry
    },
    (entry, [name, { used, max }]) => {
      const [label, bar] = entry.children
      const words = (LIMITS[name] ?? [name, number])[1]
      setText(label.lastChild, words(used) + ' of ' + words(max))
      bar.max = 1
      bar.value = Math.min(1, used / max)
      setData(bar, 'level', used >= 0.95 * max ? 'full' : used >= 0.75 * max ? 'high' : 'low')
    }
  )
}

function showInstances({ instance, instances, backplane }) {
  $('others').hidden = instance === undefined
  if (instance === undefined) return
  const link = backplane.up !== 1 ? 'no connection' : backplane.degraded ? 'slow' : 'connected'
  const own = { tag: instance, text: 'this one, backplane: ' + link }
  const others = instances.map(({ tag, state, heard }) => ({
    tag,
    text:
      { alive: 'alive', gone: 'gone', unknown: 'not known whether it lives' }[state] +
      (heard === undefined ? '' : ', last message ' + duration(heard) + ' ago')
  }))
  list(
    $('instances'),
    [own, ...others],
    ({ tag }) => tag,
    ({ tag }) => {
      const entry = make('li')
      entry.append(make('span', 'name', tag), ' ', make('span'))
      return entry
    },
    (entry, { text }) => setText(entry.lastChild, text)
  )
}

function makeRequest(request) {
  const entry = make('li')
  const time = make('time', '', clock(request.at))
  time.dateTime = new Date(request.at).toISOString()
  entry.append(time, make('span', 'method'), make('span', 'outcome'), make('ul', 'lines'))
  return entry
}

function updateRequest(entry, { method, status, took, isBroken, lines }) {
  const [, verb, outcome, why] = entry.children
  setText(verb, method)
  const isOpen = took === undefined
  const after = isOpen ? '' : duration(took)
  const how = isBroken ? 'cut after ' : (status ?? '–') + ' in '
  setText(outcome, method === '' ? '' : isOpen ? 'open' : how + after)
  const isRefused = status !== undefined && status >= 400
  setData(entry, 'outcome', isOpen ? 'open' : isBroken ? 'broken' : isRefused ? 'refused' : 'fine')
  const words = lines.length > 0 ? lines : isOpen ? [] : ['as the endpoint has answered it']
  list(
    why,
    words.map((line, i) => [i + line, line]),
    ([key]) => key,
    ([, line]) => make('li', lines.length > 0 ? '' : 'none', line),
    () => undefined
  )
}

function showRequests(changed, isWhole) {
  if (isWhole) requests.clear()
  for (const request of changed) requests.set(request.id, request)
  const newest = [...requests.values()].sort((a, b) => b.id - a.id)
  for (const { id } of newest.splice(MOST_REQUESTS)) requests.delete(id)
  list($('requests'), newest, ({ id }) => id, makeRequest, updateRequest)
}

async function cut(name) {
  const headers = { 'X-CSRF-Token': state.token }
  const url = 'cut?stream=' + encodeURIComponent(name)
  const answer = await fetch(url, { method: 'POST', headers }).catch(error => error)
  const isDone = answer.status === 204
  const why = isDone || answer instanceof Error ? answer.message : (await answer.text()).trim()
  setData($('done'), 'state', isDone ? 'fine' : 'lost')
  setText($('done'), isDone ? 'Cut: the connection of ' + name + '. Its client comes back.' : why)
}

// The chart

function draw() {
  const chart = $('chart')
  const width = chart.clientWidth
  const height = chart.clientHeight
  const { at, points } = state
  const shown = points.filter(point => point.at > at - SPAN)
  const most = Math.max(4, ...shown.flatMap(({ running, waiting }) => [running, waiting]))
  const floor = height - 72
  const x = time => Math.round(((time - at + SPAN) / SPAN) * width * 10) / 10
  const y = value => Math.round((floor - (value / most) * (floor - 16)) * 10) / 10
  const parts = []
  const add = (tag, attributes, text) => {
    const element = document.createElementNS(SVG, tag)
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
    if (text !== undefined) element.textContent = text
    parts.push(element)
  }
  add('line', { class: 'grid', x1: 0, x2: width, y1: y(most), y2: y(most) })
  add('line', { class: 'axis', x1: 0, x2: width, y1: floor, y2: floor })
  add('text', { x: 0, y: 11 }, number(most))

  for (const run of unbroken(shown)) {
    const line = name => run.map(point => x(point.at) + ',' + y(point[name])).join(' ')
    const ends = [x(run[0].at) + ',' + floor, x(run.at(-1).at) + ',' + floor]
    add('polygon', { class: 'area', points: ends[0] + ' ' + line('running') + ' ' + ends[1] })
    add('polyline', { class: 'running', points: line('running') })
    if (run.some(({ waiting }) => waiting > 0))
      add('polyline', { class: 'waiting', points: line('waiting') })
  }
  drawBars(shown, { width, top: floor + 8, bottom: height - 22, add })
  add('text', { x: 0, y: height - 4 }, '15 min ago')
  add('text', { class: 'middle', x: width / 2, y: height - 4 }, '7½ min')
  add('text', { class: 'end', x: width, y: height - 4 }, 'now')
  chart.replaceChildren(...parts)
  tellChart(chart, shown)
}

/** Where nobody has looked, nothing is known. */
function unbroken(points) {
  const runs = []
  for (const point of points) {
    const run = runs.at(-1)
    if (run === undefined || point.at - run.at(-1).at > GAP) runs.push([point])
    else run.push(point)
  }
  return runs
}

const COUNTED = ['cuts', 'mended', 'failed']

/** What has happened since the point before, in each thirtieth of the time. */
function drawBars(points, { width, top, bottom, add }) {
  const bars = Array.from({ length: BARS }, () => ({ cuts: 0, mended: 0, failed: 0 }))
  points.forEach((point, i) => {
    const before = points[i - 1]
    const bar = Math.min(BARS - 1, Math.floor(((point.at - state.at + SPAN) / SPAN) * BARS))
    if (before !== undefined)
      for (const name of COUNTED) bars[bar][name] += Math.max(0, point[name] - before[name])
  })
  const most = Math.max(4, ...bars.flatMap(bar => COUNTED.map(name => bar[name])))
  const step = width / BARS
  const thick = Math.max(2, (step - 3) / COUNTED.length)
  bars.forEach((bar, i) =>
    COUNTED.forEach((name, j) => {
      if (bar[name] === 0) return
      const size = Math.max(3, (bar[name] / most) * (bottom - top))
      const place = {
        x: i * step + 1 + j * thick,
        y: bottom - size,
        width: thick - 0.5,
        height: size
      }
      add('rect', { class: name, rx: 1, ...place })
    })
  )
  add('line', { class: 'grid', x1: 0, x2: width, y1: bottom, y2: bottom })
}

function tellChart(chart, points) {
  const [first] = points
  const last = points.at(-1)
  if (first === undefined) return
  const since = ' since ' + clock(first.at)
  const isYoung = state.at - first.at < SPAN - 60_000
  const one = 'One point so far, the next in five seconds:'
  const drawn = points.length === 1 ? one : 'Drawn while this page is open:'
  setText($('since'), isYoung ? drawn + since : '')
  const deeds = COUNTED.map(name => last[name] - first[name])
  const label =
    last.running +
    ' calls run, ' +
    last.waiting +
    ' wait;' +
    since +
    ' ' +
    deeds[0] +
    ' connections were lost, ' +
    deeds[1] +
    ' clients came back, ' +
    deeds[2] +
    ' streams failed'
  if (chart.getAttribute('aria-label') !== label) chart.setAttribute('aria-label', label)
}

// What comes from the server

function tell(text, name) {
  setText($('link'), text)
  setData($('link'), 'state', name)
}

function show({ at, stats, requests, points, isWhole, token }) {
  if (isWhole) {
    state.token = token
    state.points = []
  }
  state.at = at
  state.points = [...state.points, ...points].filter(point => point.at > at - SPAN)
  showSaved(stats)
  showNow(stats)
  showStreams(stats)
  showLimits(stats.limits)
  showInstances(stats)
  showRequests(requests, isWhole)
  if (points.length > 0) draw()
  tell('Live', 'fine')
}

let source
function connect() {
  source = new EventSource('events')
  source.onmessage = ({ data }) => show(JSON.parse(data))
  source.onerror = () => {
    tell('No connection, trying again', 'lost')
    // After an answer that is no event stream, the browser does not come back by itself.
    if (source.readyState === EventSource.CLOSED)
      setTimeout(() => state.isPaused || connect(), 3000)
  }
}

$('pause').addEventListener('click', () => {
  state.isPaused = !state.isPaused
  $('pause').setAttribute('aria-pressed', String(state.isPaused))
  source.close()
  if (state.isPaused) tell('Paused', 'wait')
  else connect()
})

new ResizeObserver(draw).observe($('chart'))
connect()
`
