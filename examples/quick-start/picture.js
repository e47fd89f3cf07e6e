// Makes picture.svg: the call of an unmodified client, cut three times, with the middleware and
// without. What it shows is a run that it makes; it moves by CSS alone.
//
//   node examples/quick-start/picture.js [<file>]

import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { callTool } from './client.js'
import { cutProxy, planCuts } from './cut-proxy.js'
import { readDocuments } from './search-index.js'
import { createServer } from './server.js'

const STEPS = 40
/** Milliseconds that the client waits; by itself it waits 60 s. */
const TIMEOUT = 4000
const WIDTH = 820
const PLOT = { x: 20, width: 526, height: 96 }
/** Part of the animation until the run is over; then it stands still. */
const RUNNING = 0.7

const documents = await readDocuments(STEPS)
const runs = await Promise.all([run(false), run(true)])
const duration = Math.max(...runs.map(({ end }) => end))
await writeFile(process.argv[2] ?? fileURLToPath(new URL('picture.svg', import.meta.url)), svg())

/** Makes the call once. Times are milliseconds since its beginning. */
async function run(bare) {
  const { app, executions, close } = createServer({ documents, bare })
  const listener = app.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const begin = performance.now()
  const now = () => Math.round(performance.now() - begin)
  const steps = []
  const cuts = []
  const connections = [{ from: 0 }]
  const wire = await cutProxy({
    port: listener.address().port,
    plan: planCuts(3, 1),
    onCut: ({ kind }) => {
      cuts.push({ at: now(), kind })
      connections.at(-1).to = now()
    },
    onResume: () => connections.push({ from: now() })
  })
  const outcome = await callTool(new URL(`http://127.0.0.1:${wire.port}/mcp`), {
    onprogress: ({ progress }) => steps.push({ at: now(), progress }),
    timeout: bare ? TIMEOUT : 10_000
  }).then(
    () => 'the result',
    error => error.message
  )
  const end = now()
  wire.close()
  await close()
  listener.close()
  listener.closeAllConnections()
  return { bare, steps, cuts, connections, outcome, end, executions: executions() }
}

function svg() {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} 372" role="img" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="14">
<title>A call of a stock client, its connection cut three times</title>
<desc>${runs.map(inWords).join(' ')}</desc>
<style>
${style()}
</style>
<rect class="card" x="1" y="1" width="${WIDTH - 2}" height="370" rx="12"/>
<text class="title" x="20" y="32">One call of ${STEPS} steps, its connection cut three times. The client: the official SDK, unchanged.</text>
${runs.map((one, i) => lane(one, 52 + i * 156)).join('\n')}
</svg>
`
}

function lane(one, y) {
  const { bare, steps, cuts, connections, end } = one
  const parts = [
    ...connections.map(({ from, to = bare ? from : end }) =>
      tag('rect', { class: 'wire', x: x(from), y: 80, width: x(to) - x(from), height: 10, rx: 3 })
    ),
    bare && tag('path', { class: 'wait', d: `M${x(cuts[0]?.at ?? 0)} 85H${x(end)}` }),
    ...steps.map(({ at, progress }) =>
      tag('circle', { class: 'step', cx: x(at), cy: 70 - (progress / STEPS) * 50, r: 3 })
    ),
    ...cuts.flatMap(({ at, kind }) => [
      tag('path', { class: 'cut', d: `M${x(at)} 18V94` }),
      tag('text', { class: 'cut', x: x(at), y: 12, 'text-anchor': 'middle' }, `✂\ufe0e ${kind}`)
    ]),
    tag('g', { class: 'cover' }, '<rect width="100%" height="100%"/><path d="M0 0V96"/>')
  ]
  const name = bare ? 'Without' : "With app.use('/mcp', mcpStreams())"
  const outcome = outcomeOf(one).map((text, i) =>
    tag('text', { x: PLOT.x + PLOT.width + 14, y: 74 + i * 20 }, text)
  )
  return tag(
    'g',
    { transform: `translate(0 ${y})` },
    `${tag('text', { class: 'name', x: PLOT.x, y: 18 }, name)}
${tag('svg', { x: PLOT.x, y: 30, width: PLOT.width, height: PLOT.height }, parts.filter(Boolean).join('\n'))}
${tag('g', { class: `outcome ${bare ? 'lost' : 'fine'}` }, outcome.join('\n'))}`
  )
}

function outcomeOf({ bare, steps, cuts, outcome, executions }) {
  const isInOrder = steps.every(({ progress }, i) => progress === i + 1)
  const count = `${steps.length} of ${STEPS} steps`
  return bare
    ? [
        `✘ ${count}, and no result`,
        outcome.replace(/^MCP error -\d+: /, ''),
        `(after ${TIMEOUT / 1000} s here, 60 s by default)`
      ]
    : [
        `✔ ${count}, ${outcome}`,
        `${cuts.length} cuts, ${isInOrder ? 'nothing twice' : 'steps out of order'}`,
        executions === 1 ? 'the tool ran once' : `the tool ran ${executions} times`
      ]
}

function inWords(one) {
  return `${one.bare ? 'Without' : 'With'} the middleware: ${outcomeOf(one).join(', ')}.`
}

function x(at) {
  return Math.round((at / duration) * PLOT.width * 10) / 10
}

function tag(name, attributes, content = '') {
  const given = Object.entries(attributes).map(([key, value]) => ` ${key}="${value}"`)
  return `<${name}${given.join('')}>${content}</${name}>`
}

function style() {
  const seconds = (duration / RUNNING / 1000).toFixed(1)
  const ends = runs.map(({ end }) => Math.round((end / duration) * RUNNING * 100))
  const appears = at => `{ 0%, ${at}% { opacity: 0 } ${at + 2}%, 100% { opacity: 1 } }`
  return `svg { --card: #fff; --text: #1b2330; --soft: #5a6678; --edge: #d5dbe5; --wire: #2f68de; --cut: #c9243a; --fine: #12803f }
@media (prefers-color-scheme: dark) {
  svg { --card: #191f29; --text: #e6eaf1; --soft: #9daabd; --edge: #323c4c; --wire: #5b8df5; --cut: #ff6b7c; --fine: #4ecb82 }
}
text { fill: var(--text) }
.card { fill: var(--card); stroke: var(--edge) }
.title, .outcome text:first-child { font-weight: 600 }
.name { fill: var(--soft) }
.wire, .step { fill: var(--wire) }
.wait { stroke: var(--soft); stroke-width: 2; stroke-dasharray: 2 5 }
path.cut { stroke: var(--cut); stroke-width: 1.5; stroke-dasharray: 3 3 }
text.cut { fill: var(--cut); font-size: 12px; font-weight: 600 }
.fine text:first-child { fill: var(--fine) }
.lost text:first-child { fill: var(--cut) }
.cover rect { fill: var(--card) }
.cover path { stroke: var(--edge); stroke-width: 2 }
.cover { animation: play ${seconds}s linear infinite }
.fine { animation: fine ${seconds}s linear infinite }
.lost { animation: lost ${seconds}s linear infinite }
@keyframes play { ${RUNNING * 100}%, 100% { transform: translateX(${PLOT.width}px) } }
@keyframes fine ${appears(ends[0])}
@keyframes lost ${appears(ends[1])}
@media (prefers-reduced-motion: reduce) {
  .cover { display: none }
  .fine, .lost { animation: none }
}`
}
