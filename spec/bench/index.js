// npm run bench [-- a b c d e f g h] [--quick] [--rounds=n] [--only=text]: what durability costs, as
// ratios to the bare endpoint.
//
// Variants run in processes of their own, apart from the load, and take turns. Every number is the
// median of its rounds. The load checks every event that it gets. BENCH_CPU_PROF=<folder> writes
// CPU profiles of the servers there.

import { parseArgs } from 'node:util'
import { measureCalls } from './calls.js'
import { measureEvents } from './events.js'
import { measureFetch } from './fetch.js'
import { measureHandOff } from './hand-off.js'
import { measureMemory } from './memory.js'
import { measureResources } from './resources.js'
import { measureResume } from './resume.js'
import { othersShare } from './rounds.js'
import { measureSlowJson } from './slow-json.js'

const sections = {
  a: measureEvents,
  b: measureCalls,
  c: measureResume,
  d: measureMemory,
  e: measureFetch,
  f: measureHandOff,
  g: measureResources,
  h: measureSlowJson
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    only: { type: 'string', default: '' }
  }
})
const { quick, only } = values
const plan = {
  rounds: Number(values.rounds ?? (quick ? 2 : 5)),
  seconds: quick ? 0.05 : 0.2,
  quick,
  only
}

const unknown = positionals.filter(name => !Object.hasOwn(sections, name))
if (unknown.length > 0) throw new TypeError(`No such section: ${unknown.join(', ')}`)

const began = performance.now()
for (const [name, measure] of Object.entries(sections)) {
  if (positionals.length === 0 || positionals.includes(name)) await measure(plan)
}
const others = othersShare()
console.log(`\n${Math.round((performance.now() - began) / 1000)} s`)
if (others !== undefined)
  console.log(`Other processes kept ${others.toFixed(2)} CPUs busy meanwhile.`)
