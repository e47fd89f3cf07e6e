// Plays one scenario: server, proxy and clients, and then the look at what is left.

import express from 'express'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { mcpStreams, type McpStreams } from '../../lib/index.js'
import { createCutProxy } from '../helpers/cut-proxy.js'
import { listen } from '../helpers/listen.js'
import { openStream } from '../helpers/open-stream.js'
import * as client from './clients.js'
import type { ClientContext, End } from './clients.js'
import { fuzzEndpoint, type FuzzEndpoint } from './endpoint.js'
import { followFetch } from './fetch-client.js'
import { Inbox, Violation } from './oracle.js'
import { followRaw } from './raw-client.js'
import { followResumable } from './resumable-client.js'
import { collects, drawScenario, type CallPlan, type Scenario } from './scenario.js'
import { followTokens } from './token-client.js'

export interface CaseReport {
  seed: number
  scenario: Scenario
  /** By client and end, such as `keyed complete`. */
  ends: string[]
  faults: Error[]
  /** What was sent, cut, said and heard, in that order. */
  log: string[]
}

/** Milliseconds for a case, on a machine that has other things to do. */
const DEADLINE = 20_000
/** Milliseconds beyond the retention times after which all memory must be back. */
const GRACE = 4000

export async function runCase(seed: number): Promise<CaseReport> {
  const scenario = drawScenario(seed)
  const report: CaseReport = { seed, scenario, ends: [], faults: [], log: [] }
  const began = performance.now()
  const log = (line: string): void =>
    void report.log.push(`${(performance.now() - began).toFixed(0)} ${line}`)
  const endpoint = fuzzEndpoint(scenario, log)
  const streams = mcpStreams({
    ...scenario.options,
    onError: error => log(`onError: ${error.message}`)
  })
  const app = express().set('env', 'test').use('/mcp', streams).all('/mcp', endpoint)
  const server = await listen(createServer(app))
  const cuts = new Map(scenario.calls.map(plan => [plan.key, [...plan.cuts]]))
  const plan = ({ headers }: { headers: Record<string, string> }) =>
    cuts.get(headers[client.CALL_HEADER] ?? '')?.shift()
  const proxy = await createCutProxy({ target: server.port, plan })
  proxy.on('cut', ({ cut, headers }) =>
    log(`${headers[client.CALL_HEADER]}: cut ${JSON.stringify(cut)}`)
  )
  const check = async (part: Promise<unknown>): Promise<void> => {
    try {
      await part
    } catch (error) {
      report.faults.push(error as Error)
    }
  }
  const url = `${proxy.url}/mcp`
  const direct = `${server.url}/mcp`
  const calls = scenario.calls.map(async plan => {
    const inbox = new Inbox(plan, scenario, { mayRepeat: collects(plan) })
    const end = await play({ plan, scenario, url, direct, inbox, log })
    log(`${plan.key}: ${end}`)
    report.ends.push(`${plan.client} ${end}`)
    if (inbox.reasons.length > 0) report.ends.push(`  reason ${inbox.reasons.join(', ')}`)
  })
  await check(within(DEADLINE, Promise.all(calls.map(check)), 'a client hangs'))
  checkEndpoint(endpoint, report)
  // Wires that fell silent are held open there, and nobody could tell that they are dead.
  await check(proxy.close())
  await check(checkMemory(streams, report, endpoint))
  await check(streams.close())
  endpoint.stop()
  await server.close()
  await Promise.allSettled(calls)
  return report
}

async function play(context: ClientContext): Promise<End> {
  const { plan, direct } = context
  await sleep(plan.after)
  if (plan.client === 'fetch') return followFetch(context)
  if (plan.client === 'resumable') return followResumable(context)
  const { ended } = await openStream(direct, {
    headers: client.headersOf(plan),
    body: client.initializeBody(plan)
  })
  await ended
  return plan.client === 'tokens' ? followTokens(context) : followRaw(context)
}

function checkEndpoint({ records }: FuzzEndpoint, { faults, scenario }: CaseReport): void {
  for (const { plan, runs, answers } of records.values()) {
    // Where room or time is short, a key may be forgotten before its client comes back.
    if (runs > 1 && scenario.isCalm)
      faults.push(new Violation(`${plan.key} (${plan.client}) ran ${runs} times`))
    for (const [id, times] of answers)
      if (times > 1)
        faults.push(new Violation(`the answer to ${id} (${plan.client}) came ${times} times`))
  }
}

/**
 * What is kept after the end must go by itself, without `close`. Where nothing is tight it is kept
 * for long, so that no client on a busy machine comes too late: there nothing must be under way any
 * more.
 */
async function checkMemory(
  streams: McpStreams,
  { scenario, ends }: CaseReport,
  endpoint: FuzzEndpoint
): Promise<void> {
  const { options, calls, isCalm } = scenario
  if (isCalm && ends.some(end => /(lost|left)$/.test(end))) return
  const { window = 0, resumeInterval } = isCalm ? {} : options
  const longest = Math.max(window, (resumeInterval?.max ?? 0) * 1000)
  const until = performance.now() + 2 * longest + GRACE
  const left = (): string[] => {
    const { live, waiting, finished, connections, calls: tokens, keyed, bytes } = streams.stats()
    const underWay = { live, waiting, connections, keyed }
    const counts = isCalm ? underWay : { ...underWay, finished, tokens, bytes }
    const open = calls
      .filter(({ key }: CallPlan) => endpoint.records.get(key)!.isOpen)
      .map(({ key }) => `${key} is open`)
    return [
      ...open,
      ...Object.entries(counts).flatMap(([name, count]) => (count === 0 ? [] : `${count} ${name}`))
    ]
  }
  while (left().length > 0) {
    if (performance.now() > until) throw new Violation(`left at the end: ${left().join(', ')}`)
    await sleep(10)
  }
}

async function within<T>(ms: number, promise: Promise<T>, otherwise: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Violation(otherwise)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
