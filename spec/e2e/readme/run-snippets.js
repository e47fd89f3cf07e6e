// Runs snippets of the pages as they are printed, one after another, in one process, and then what
// they declare. Prints what came of each, and what of it has not run, as JSON.
//
//   node run-snippets.js <manifest.json>    in an empty folder

import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pathToFileURL } from 'node:url'
import { EXERCISES } from './snippet-exercises.js'
import { actual, closeServers } from './snippet-network.js'
import { globalsFor } from './snippet-world.js'

const PATIENCE = 8000

const coverage = new Session()
coverage.connect()
await coverage.post('Profiler.enable')
await coverage.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })

const { folder, snippets } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const outcomes = []
for (const [i, snippet] of snippets.entries()) {
  const faults = []
  const outcome = { file: snippet.file, line: snippet.line, faults, came: {} }
  outcomes.push(outcome)
  const fault = error => faults.push(String(error?.stack ?? error))
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', fault)
  process.removeAllListeners('uncaughtException').on('uncaughtException', fault)
  try {
    await inTime(
      snippet.language === 'sh' ? runCommand(outcome, snippet) : run(i, outcome, snippet)
    )
  } catch (error) {
    fault(error)
  }
}
closeServers()
await new Promise(setImmediate)

const { result } = await coverage.post('Profiler.takePreciseCoverage')
for (const [i, outcome] of outcomes.entries())
  outcome.unexecuted = unexecutedIn(result.find(({ url }) => url === urlOf(i)))
writeFileSync(1, `\n${JSON.stringify(outcomes)}`)
process.exit(0)

async function runCommand(outcome, { code }) {
  const { stdout } = await promisify(execFile)('sh', ['-c', actual(code)])
  outcome.came.prints = stdout
}

async function run(i, outcome, snippet) {
  const { code } = snippet
  if (/listen\(/.test(code)) closeServers()
  const given = globalsFor(snippet)
  const names = [...code.matchAll(/^(?:const|(?:async )?function) (\w+)/gm)].map(([, name]) => name)
  writeFileSync(pathOf(i), `${code}\nexport { ${names.join(', ')} }\n`)
  const declared = await import(urlOf(i))
  for (const [name, mark, exercise] of EXERCISES)
    if (mark.test(code)) outcome.came[name] = await exercise({ ...given, ...declared, code })
}

function pathOf(i) {
  return join(folder, `snippet-${i}.mjs`)
}

function urlOf(i) {
  return pathToFileURL(pathOf(i)).href
}

async function inTime(promise) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('It takes too long')), PATIENCE)
  })
  try {
    await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** The pieces of a script that have not run. */
function unexecutedIn(script) {
  if (script === undefined) return []
  const source = readFileSync(new URL(script.url), 'utf8')
  return script.functions
    .flatMap(({ ranges }) => ranges)
    .filter(({ count }) => count === 0)
    .map(({ startOffset, endOffset }) => source.slice(startOffset, endOffset).trim())
    .filter(text => /\w/.test(text))
}
