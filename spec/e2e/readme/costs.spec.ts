// What the README says that the package costs, as far as it can be counted and weighed here.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { build } from 'esbuild'
import { execFile } from 'node:child_process'
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { eventMaker } from '../../bench/endpoints.js'
import { mostSockets, start } from '../../bench/processes.js'
import { page, root } from './markdown.js'

const costs = page('README.md').section('What it costs').replace(/\s+/g, ' ')
const said = (pattern: RegExp, text = costs): number => Number(pattern.exec(text)?.[1])

/** How far a figure that was said is from what it is, as a part of that. */
const expectAbout = (actual: number, stated: number, tolerance: number): void => {
  expect([stated, Math.abs(actual / stated - 1) < tolerance, actual]).toEqual([
    stated,
    true,
    actual
  ])
}

beforeAll(async () => {
  await promisify(execFile)(process.execPath, ['.config/ensure-dist.js'], { cwd: root })
})

/** kB that a page loads for some of the client's names, minified and zipped. */
async function weigh(names: string): Promise<number> {
  const contents = `export ${names} from './dist/client/index.js'`
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    write: false
  })
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length / 1000
}

/** MB of the files of a folder; without the packages in it, which are weighed by themselves. */
function megabytesOf(folder: string): number {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => name !== 'node_modules')
    .map(entry => {
      const path = join(folder, entry.name)
      return entry.isDirectory() ? megabytesOf(path) : lstatSync(path).size / 1e6
    })
    .reduce((sum, size) => sum + size, 0)
}

const dependenciesOf = (folder: string): string[] => {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    dependencies?: object
  }
  return Object.keys(manifest.dependencies ?? {})
}

/** The folders of all packages that one needs, found as Node finds them. */
function packagesFor(folder: string, found = new Set<string>()): Set<string> {
  for (const name of dependenciesOf(folder)) {
    let from = folder
    while (!existsSync(join(from, 'node_modules', name))) from = dirname(from)
    const needed = join(from, 'node_modules', name)
    if (found.has(needed)) continue
    found.add(needed)
    packagesFor(needed, found)
  }
  return found
}

describe('the README', () => {
  it('knows how many packages this one needs', () => {
    expect(dependenciesOf(root)).toHaveLength(said(/(\d+) direct dependencies/))
    // npm shares more of them here, where other packages need them too, than in an empty project.
    expectAbout(packagesFor(root).size, said(/, (\d+) packages with theirs/), 0.1)
  })

  it('knows what they weigh on the disk, and this one', () => {
    const ours = megabytesOf(join(root, 'dist'))
    const theirs = [...packagesFor(root)].map(megabytesOf)
    const all = theirs.reduce((sum, size) => sum + size, ours)
    expectAbout(ours, said(/, ([\d.]+) MB of it this one/), 0.1)
    expectAbout(all, said(/([\d.]+) MB, /), 0.1)
  })

  it('knows what the client weighs in a page', async () => {
    const client = page('lib/client/README.md').text.replace(/\s+/g, ' ')
    const stated = said(/`resumableFetch` adds ([\d.]+) kB/, client)
    expectAbout(await weigh('{ resumableFetch }'), stated, 0.1)
    expectAbout(await weigh('*'), said(/the whole client ([\d.]+) kB/, client), 0.1)
  })
})

/** Each holds an open file. With fewer, what else a process does in the meantime counts too much. */
const CALLS = Math.min(500, mostSockets())
const ROUNDS = 3

/** Versions of Node differ in what they hold: half as much, or twice. */
const expectOrder = (actual: number, stated: number): void =>
  expect([stated, actual, actual > stated / 2 && actual < stated * 2]).toEqual([
    stated,
    actual,
    true
  ])

type BenchProcess = Awaited<ReturnType<typeof start>>

describe('the heap', () => {
  /** An endpoint that holds its responses and nothing else, in a process of its own. */
  const serve = (variant: 'bare' | 'ours') => start('server.js', { endpoint: 'raw', variant })
  const heapOf = async (server: BenchProcess): Promise<number> =>
    ((await server.call('memory')) as { heap: number }).heap

  let load: BenchProcess
  beforeAll(async () => {
    load = await start('load.js')
  })
  afterAll(() => load.stop())

  /**
   * Bytes for a call whose client is connected, and for one whose client has gone, in a process that
   * has served some before.
   */
  async function weighCall(variant: 'bare' | 'ours') {
    const server = await serve(variant)
    const park = async (calls: number) =>
      load.call('park', { port: await server.call('port'), calls, size: 200 })
    const leave = async () => {
      await load.call('leave')
      while ((await server.call('connections')) !== 0) await new Promise(setImmediate)
    }
    try {
      await park(CALLS)
      await leave()
      const rounds: { connected: number; gone: number }[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const before = await heapOf(server)
        const perCall = async () => ((await heapOf(server)) - before) / CALLS / 1000
        await park(CALLS)
        const connected = await perCall()
        await leave()
        rounds.push({ connected, gone: await perCall() })
      }
      // What the engine does besides comes on top.
      const least = (name: 'connected' | 'gone') => Math.min(...rounds.map(round => round[name]))
      return { connected: least('connected'), gone: least('gone') }
    } finally {
      await load.call('leave')
      await server.stop()
    }
  }

  it('grows by what the README says with a call that runs', async () => {
    const [ours, bare] = [await weighCall('ours'), await weighCall('bare')]
    const sentence = /a running call takes ([\d.]+) kB of heap/
    expectOrder(ours.connected - bare.connected, said(sentence))
    expect(ours.gone - bare.gone).toBeLessThan(2 * said(sentence))
  })

  it('grows by what the README says with an event that is kept', async () => {
    const server = await serve('ours')
    try {
      const plan = { port: await server.call('port'), concurrent: 10, calls: 2, size: 200 }
      await load.call('events', { ...plan, count: 10 })
      const before = await heapOf(server)
      await load.call('events', { ...plan, count: 1000 })
      const bytes = ((await heapOf(server)) - before) / 20_000
      const own = eventMaker(200)(500).length
      expectOrder(bytes - own, said(/a kept event (\d+) bytes beside its own/))
    } finally {
      await server.stop()
    }
  })
})
