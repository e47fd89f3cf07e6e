// npm run bench: what durability costs, as ratios to the bare endpoint. `-- --help` says the rest.
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
import { measureSeveral } from './several.js'
import { measureSlowJson } from './slow-json.js'
import { measureTasks } from './tasks.js'

/** With the seconds that each takes with `--quick` on two cores that have other work, too. */
const sections = {
  a: { measure: measureEvents, what: 'an event on its way through', seconds: 80 },
  b: { measure: measureCalls, what: 'a call from its start to its end', seconds: 200 },
  c: { measure: measureResume, what: 'a client that comes back', seconds: 17 },
  d: { measure: measureMemory, what: 'memory of streams that are kept', seconds: 20 },
  e: { measure: measureFetch, what: 'resumableFetch, in the client', seconds: 150 },
  f: { measure: measureHandOff, what: 'a question to the client', seconds: 180 },
  g: { measure: measureResources, what: 'bytes of a resource', seconds: 41 },
  h: { measure: measureSlowJson, what: 'slow JSON', seconds: 150 },
  i: { measure: measureTasks, what: 'tasks that wait, and looks at them', seconds: 60 },
  j: { measure: measureSeveral, what: 'several instances on one Redis', seconds: 120 }
}

/** Five rounds instead of two, each longer. */
const FULL = 4

const list = Object.entries(sections)
  .map(([name, { what, seconds }]) => `  ${name}  ${what.padEnd(34)} ${inTime(seconds)}`)
  .join('\n')
const usage = `Usage: npm run bench -- [section ...] [--quick] [--rounds <n>] [--only <text>]
                        [--compare <module>]

Sections, and about how long each takes with --quick
(all of them ${inTime(guessFor(Object.keys(sections)))}; without it ${FULL} times as long):
${list}

  --quick          two short rounds: whether it runs, and roughly how things are
  --rounds <n>     rounds, 1 to 100; each number is their median (2 with --quick, else 5)
  --only <text>    only measurements whose name has this text
  --compare <module>  in section b, another middleware beside this one: what the module exports
  -h, --help       this text

Each line: the median as a ratio to the same endpoint without the middleware (or to what the title
says), the goal, how it was met, and the spread of the rounds. "ok": met. "~": the goal lies inside
of the spread, so this machine cannot tell today. "short": missed. "B" is bytes.`

const { values, positionals } = readOptions()
const { quick, only, compare } = values
const plan = {
  rounds: Number(values.rounds ?? (quick ? 2 : 5)),
  seconds: quick ? 0.05 : 0.2,
  quick,
  only,
  compare
}

const chosen = Object.keys(sections).filter(
  name => positionals.length === 0 || positionals.includes(name)
)
const guess = guessFor(chosen) * (quick ? plan.rounds / 2 : (FULL * plan.rounds) / 5)
console.log(`Sections ${chosen.join(', ')}: about ${inTime(guess)}, if all of each is measured`)
const began = performance.now()
for (const name of chosen) {
  const at = performance.now()
  await sections[name].measure(plan)
  console.log(`  (${inTime((performance.now() - at) / 1000)})`)
}
const others = othersShare()
console.log(`\n${Math.round((performance.now() - began) / 1000)} s`)
if (others !== undefined)
  console.log(`Other processes kept ${others.toFixed(2)} CPUs busy meanwhile.`)

/** The command line. What it does not understand is an error, exit code 2. */
function readOptions() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        rounds: { type: 'string' },
        only: { type: 'string', default: '' },
        compare: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false }
      }
    })
    const unknown = positionals.filter(name => !Object.hasOwn(sections, name))
    if (unknown.length > 0) throw new RangeError(`No such section: ${unknown.join(', ')}`)
    const { rounds } = values
    if (rounds !== undefined && !/^([1-9]\d?|100)$/.test(rounds))
      throw new RangeError(`--rounds must be a whole number from 1 to 100, not '${rounds}'`)
    if (!values.help) return { values, positionals }
    console.log(usage)
    process.exit(0)
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exit(2)
  }
}

function guessFor(names) {
  return names.reduce((sum, name) => sum + sections[name].seconds, 0)
}

function inTime(seconds) {
  return seconds < 100 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`
}
