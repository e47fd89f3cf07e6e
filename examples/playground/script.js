/* global document, location, matchMedia, requestAnimationFrame, ResizeObserver */
// The page: the same work on both sides, with `resumableFetch` on the left and the browser's own
// `fetch` on the right.

import { resumableFetch, streamResource } from '/client.js'
import { addSpan, endSpan, wait, watched } from './connections.js'
import { connectTo } from './mcp.js'
import { draw } from './picture.js'
import { ask, closeQuestion, onAnswer } from './question.js'
import { watchServers } from './held.js'

const { endpoints, pace, file, inspector } = await (await fetch('/setup')).json()
/** Milliseconds without a sign after which the twin gives up. The SDK's client waits 60 s. */
const PATIENCE = 20 * pace + 1000
/**
 * Milliseconds of silence after which `resumableFetch` comes back. The server says something every
 * 500.
 */
const IDLE = 1500
/** Milliseconds from one picture to the next. */
const FRAME = matchMedia('(prefers-reduced-motion: reduce)').matches ? 500 : 40
const $ = id => document.getElementById(id)
$('inspector').href = inspector
const retries = { idleTimeout: IDLE, minTimeout: 400, maxRetries: 8 }

const TITLES = { with: 'With mcpStreams()', without: 'Its twin, without' }
const HOW = {
  with: 'In the page: resumableFetch() and streamResource().',
  without: 'In the page: the browser’s own fetch().'
}

const sides = [
  openSide('with', (fetch, onReconnect) => resumableFetch({ fetch, onReconnect, ...retries })),
  openSide('without', fetch => fetch)
]
let work = new AbortController()
let drawnAt = 0
const NOTHING = { start: 0, end: 0, points: [], spans: [], cuts: [], connections: 0 }
/** What is drawn before anything has been started: a call that is cut after four seconds. */
const SAMPLES = {
  with: sample([1, 11.2], 'result', [
    { from: 400, to: 4000, kind: '', label: 'connection' },
    { from: 4000, to: 4900, kind: 'wait', label: 'wait' },
    { from: 4900, to: 11_200, kind: '', label: 'connection' }
  ]),
  without: sample([1, 4], 'lost', [{ from: 400, to: 4000, kind: '', label: 'connection' }])
}

function sample([from, to], last, spans) {
  const points = []
  for (let at = from * 1000; at <= to * 1000; at += 340)
    points.push({ at: at > 3900 && at < 4900 ? 4900 : at, share: at / 11_200, kind: 'sample' })
  points.push({ ...points.at(-1), kind: last })
  return { ...NOTHING, end: 11_200, points, spans, cuts: [{ at: 4000, kind: 'cut' }] }
}

function openSide(name, fetchOf) {
  const card = $('side').content.cloneNode(true).firstElementChild
  const title = TITLES[name]
  card.id = name
  card.setAttribute('aria-label', title)
  card.querySelector('h2').textContent = title
  card.querySelector('.how').textContent = HOW[name]
  card.querySelector('details').open = matchMedia('(min-width: 880px)').matches
  document.querySelector('.sides').append(card)
  const side = {
    name,
    title,
    card,
    run: undefined,
    part: className => card.querySelector(`.${className}`)
  }
  side.fetch = watched(side)
  side.client = connectTo(
    endpoints[name],
    fetchOf(side.fetch, reconnection => wait(side, reconnection))
  )
  new ResizeObserver(() => show(side)).observe(card)
  return side
}

// What is started

const acts = {
  async call(side, signal) {
    const steps = []
    let total = 0
    const onEvent = ({ message }) => {
      if (message?.method !== 'notifications/progress') return
      const { progress } = message.params
      total = message.params.total
      steps.push(progress)
      receive(side, 'event', progress / total, `${steps.length} of ${total}`)
    }
    const { content } = await request(side, 'tools/call', { name: 'read' }, signal, onEvent)
    const isWhole = total > 0 && steps.length === total && steps.every((step, i) => step === i + 1)
    if (!isWhole) throw new Error('steps are missing or doubled')
    return `${content[0].text}, each once and in order`
  },

  async question(side, signal) {
    const onEvent = ({ message }) => {
      if (message?.method !== 'elicitation/create') return
      receive(side, 'question', 0.5, 'question')
      side.run.asked = message.id
      ask(message.params)
    }
    const { content } = await request(side, 'tools/call', { name: 'book' }, signal, onEvent)
    side.run.received = 'question, result'
    return content[0].text
  },

  async download(side, signal) {
    const arrive = bytes => {
      side.run.cursor = side.name === 'with' ? `${bytes.toLocaleString('en')} B` : undefined
      receive(side, 'chunk', bytes / file.size, `${megabytes(bytes)} MB`)
    }
    let blob
    if (side.name === 'with') {
      const onProgress = ({ received }) => arrive(received)
      const onReconnect = reconnection => wait(side, reconnection)
      const options = {
        fetch: side.fetch,
        headers: await side.client.connect(signal),
        onProgress,
        onReconnect,
        signal
      }
      const { stream } = await streamResource(endpoints.with, file.uri, { ...options, ...retries })
      blob = await new Response(stream, { headers: { 'Content-Type': 'text/csv' } }).blob()
    } else {
      // All that is there without `resources/stream`: the whole file in one message.
      let bytes = 0
      side.run.onBytes = count => arrive((bytes += count))
      const { contents } = await request(
        side,
        'resources/read',
        { uri: file.uri },
        signal,
        () => {}
      )
      blob = new Blob([contents[0].text], { type: 'text/csv' })
    }
    if (blob.size !== file.size) throw new Error(`${blob.size} of ${file.size} bytes`)
    const link = side.part('file').firstElementChild
    Object.assign(link, {
      href: URL.createObjectURL(blob),
      download: file.name,
      textContent: `Save ${file.name}`
    })
    side.part('file').hidden = false
    return `${megabytes(file.size)} MB, whole`
  }
}

async function request(side, method, params, signal, onEvent) {
  const { run } = side
  const hear = event => {
    if (event.id) run.cursor = `event ${event.id.match(/^[\w-]+(?:\.r\d+)?\.(\d+)/)[1]}`
    onEvent(event)
  }
  return side.client.call(method, params, { signal, onEvent: hear })
}

async function start(name) {
  work.abort()
  const { signal } = (work = new AbortController())
  closeQuestion()
  for (const side of sides) {
    side.run = undefined
    side.card.className = side.card.dataset.state = ''
    side.part('status').textContent = 'Connecting'
    side.part('log').replaceChildren()
    side.part('file').hidden = true
  }
  await Promise.allSettled(sides.map(({ client }) => client.connect(signal)))
  if (signal.aborted) return
  $('news').textContent = 'Now cut the wire.'
  const at = performance.now()
  for (const side of sides) void runOn(side, acts[name], at, signal)
  follow()
}

async function runOn(side, act, at, signal) {
  const lost = new AbortController()
  const pictured = { start: at, end: undefined, points: [], spans: [], cuts: [] }
  const run = { ...pictured, open: new Set(), connections: 0, heard: at, lost, share: 0 }
  side.run = run
  side.card.dataset.state = 'running'
  side.part('status').textContent = 'Running'
  const finish = (state, kind, outcome) => {
    if (side.run !== run || signal.aborted) return
    receive(side, kind, state === 'fine' ? 1 : run.share)
    run.end = performance.now()
    run.asked = undefined
    side.part('status').textContent = outcome
    side.card.className = `is-${state}`
    side.card.dataset.state = state
    if (sides.every(({ run }) => run?.asked === undefined)) closeQuestion()
    sides.forEach(show)
  }
  try {
    finish('fine', 'result', `✓ ${await act(side, AbortSignal.any([signal, lost.signal]))}`)
  } catch (error) {
    finish('lost', 'lost', `✘ Lost: ${error.message}`)
  }
}

// What is seen

function receive(side, kind, share, received) {
  const { run } = side
  run.share = share
  run.points.push({ at: performance.now(), share, kind })
  if (received) run.received = received
}

function show(side) {
  const { part, title, name } = side
  const isSample = side.card.dataset.state === undefined
  const run = side.run ?? (isSample ? SAMPLES[name] : NOTHING)
  // Both sides by one measure of time.
  const until = Math.max(...sides.map(({ run }) => (run ? (run.end ?? performance.now()) : 0)))
  draw(part('picture'), run, Math.max(until, run.end ?? 0))
  part('picture').classList.toggle('is-sample', isSample)
  const counts = `${counted(run.connections, 'connection')}, ${counted(run.cuts.length, 'cut')}`
  part('picture').setAttribute('aria-label', `${title}: ${part('status').textContent}; ${counts}`)
  part('received').textContent = run.received ?? '–'
  part('cursor').textContent = run.cursor ?? (name === 'with' ? '–' : 'none')
  part('connections').textContent = run.connections
}

function counted(number, noun) {
  return `${number || 'no'} ${noun}${number === 1 ? '' : 's'}`
}

/** Draws until both sides have ended, and gives up for the twin, which never would. */
function follow() {
  let isRunning = false
  const isTime = performance.now() - drawnAt >= FRAME
  if (isTime) drawnAt = performance.now()
  for (const side of sides) {
    const { run, name } = side
    if (isTime) show(side)
    if (!run || run.end) continue
    isRunning = true
    const isPatient =
      name === 'with' || run.asked !== undefined || performance.now() - run.heard < PATIENCE
    if (!isPatient) run.lost.abort(new Error(`nothing came for ${Math.round(PATIENCE / 1000)} s`))
  }
  if (isRunning) requestAnimationFrame(follow)
}

// What is answered, and what is cut

onAnswer(answer => {
  for (const { run, client } of sides) {
    if (run?.asked === undefined) continue
    const id = run.asked
    run.asked = undefined
    run.heard = performance.now()
    client.answer(id, answer, work.signal).catch(() => {})
  }
})

async function cut(kind) {
  const at = performance.now()
  const runs = sides.map(({ run }) => run)
  const counts = await (await fetch(`/cut/${kind}`, { method: 'POST' })).json()
  for (const [i, { name }] of sides.entries()) {
    const run = runs[i]
    if (!run || run.end < at || (counts[name] === 0 && kind !== 'outage')) continue
    run.cuts.push({ at, kind })
    if (kind !== 'silence') continue
    for (const handle of run.open) {
      endSpan(handle.span)
      handle.span = addSpan(run, 'silent', 'silence')
    }
  }
  const inWords = sides.map(({ name }) => `${counts[name] || 'none'} ${name}`).join(', ')
  $('news').textContent = `${$(`cut-${kind}`).title}. Connections cut: ${inWords}.`
  sides.forEach(show)
}

for (const name of Object.keys(acts))
  $(`start-${name}`).addEventListener('click', () => void start(name))
for (const kind of ['FIN', 'RST', 'silence', 'outage'])
  $(`cut-${kind}`).addEventListener('click', () => void cut(kind).catch(sayGone))

void watchServers(sides, sayGone)

function sayGone() {
  $('news').textContent = `${location.host} is gone. Start it again, and load this page again.`
}

function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1)
}
