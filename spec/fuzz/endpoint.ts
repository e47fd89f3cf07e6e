// The endpoint of a case: plays the scripts of its scenario, and keeps book of what it has said and
// heard.

import { EventEmitter, once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Json } from '../helpers/open-stream.js'
import type { CallPlan, Scenario, Step } from './scenario.js'
import { playOnSdk } from './sdk-endpoint.js'

/** What has become of one call at the endpoint. */
export class CallRecord {
  readonly plan: CallPlan
  /** How often its script has begun. */
  runs = 0
  /** How often the answer to each question has come, by the question's id. */
  readonly answers = new Map<string, number>()
  isOpen = false
  readonly events = new EventEmitter()

  constructor(plan: CallPlan) {
    this.plan = plan
  }
}

export interface FuzzEndpoint {
  (req: IncomingMessage, res: ServerResponse): Promise<void>
  readonly records: ReadonlyMap<string, CallRecord>
  /** Ends what still runs. */
  stop(): void
}

export function fuzzEndpoint(scenario: Scenario, log: (line: string) => void): FuzzEndpoint {
  const records = new Map(scenario.calls.map(plan => [plan.key, new CallRecord(plan)]))
  const open = new Set<ServerResponse>()

  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    open.add(res)
    res.once('close', () => open.delete(res))
    let body = ''
    try {
      for await (const chunk of req.setEncoding('utf8')) body += chunk
    } catch {
      return void res.destroy()
    }
    if (req.method !== 'POST') return void res.writeHead(req.method === 'DELETE' ? 200 : 405).end()
    const parsed: Json = JSON.parse(body)
    const messages: Json[] = Array.isArray(parsed) ? parsed : [parsed]
    const call = messages.find(({ method }) => method === 'tools/call')
    if (call !== undefined) {
      const record = records.get(call.params.arguments.key)!
      const { shape } = record.plan
      if (shape !== 'sdk-v1' && shape !== 'sdk-v2') return play(record, messages, res, log)
      begin(record, res, log)
      return playOnSdk(shape, req, res, parsed, say => playCalls(record.plan, say))
    }
    for (const message of messages) note(message)
    const [message] = messages
    if (message.method === undefined || message.id === undefined)
      return void res.writeHead(202).end()
    const result = {
      protocolVersion: message.params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'fuzz', version: '1.0.0' }
    }
    if (message.params?.session !== undefined)
      res.setHeader('Mcp-Session-Id', message.params.session)
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: message.id, result })}\n\n`)
  }

  /** An answer to a question of a call. */
  const note = ({ method, id, result, error }: Json): void => {
    if (method !== undefined) return
    const record = records.get(String(id).split('-')[0]!)
    log(`endpoint: ${error === undefined ? 'answer' : 'error'} to ${id}`)
    if (record === undefined) return
    if (result !== undefined) record.answers.set(id, (record.answers.get(id) ?? 0) + 1)
    record.events.emit('answer')
  }

  return Object.assign(handle, { records, stop: () => open.forEach(res => void res.destroy()) })
}

/** Resolves when the response closes. */
function begin(
  record: CallRecord,
  res: ServerResponse,
  log: (line: string) => void
): Promise<void> {
  const { key } = record.plan
  record.runs++
  record.isOpen = true
  log(`${key}: the endpoint begins`)
  return once(res, 'close').then(() => {
    record.isOpen = false
    log(`${key}: the endpoint's response closes`)
  })
}

/** The script of a call as the calls of a tool. */
async function playCalls(plan: CallPlan, say: (message: Json) => Promise<void>): Promise<Json> {
  const { key, script } = plan
  let n = 0
  for (const step of script) {
    if (step.do === 'wait') await sleep(step.ms)
    else if (step.do === 'throw') throw new Error('the endpoint throws')
    else if (step.do === 'answer')
      return { key, n, content: [{ type: 'text', text: padding(step.padding) }] }
    else if (step.do === 'say') {
      const data = { key, n: n++, padding: padding(step.padding) }
      const saying = say({ method: 'notifications/message', params: { level: 'info', data } })
      // A tool that waits for nothing does not hear either that nobody listens any more.
      if (plan.isPolite) await saying
      else saying.catch(() => undefined)
    }
  }
  throw new Error('the endpoint has nothing to say')
}

async function play(
  record: CallRecord,
  messages: Json[],
  res: ServerResponse,
  log: (line: string) => void
) {
  const { plan } = record
  const closed = begin(record, res, log)
  const ids = messages.filter(({ method }) => method === 'tools/call').map(({ id }) => id)
  const run: Run = {
    ids,
    written: 0,
    voice: plan.shape === 'json' ? new JsonVoice(res, plan) : new SseVoice(res, plan)
  }
  for (const step of plan.script) {
    await perform(step, record, run, res, closed)
    // Some endpoints never look.
    if (res.destroyed && plan.isPolite) return
  }
}

interface Run {
  ids: Json[]
  voice: Voice
  /** Messages that the script has written, or tried to: the number of the next one. */
  written: number
}

async function perform(
  step: Step,
  record: CallRecord,
  run: Run,
  res: ServerResponse,
  closed: Promise<void>
): Promise<unknown> {
  const { key } = record.plan
  const { ids, voice } = run
  switch (step.do) {
    case 'wait':
      await voice.flush()
      return sleep(step.ms)
    case 'comment':
      return voice.comment()
    case 'say': {
      const data = { key, n: run.written, padding: padding(step.padding) }
      if (!voice.says) return undefined
      run.written++
      return voice.say({
        jsonrpc: '2.0',
        method: 'notifications/message',
        params: { level: 'info', data }
      })
    }
    case 'ask': {
      const n = run.written++
      const id = `${key}-${n}`
      const params = {
        key,
        n,
        message: padding(step.padding),
        requestedSchema: { type: 'object', properties: {} }
      }
      voice.say({ jsonrpc: '2.0', id, method: 'elicitation/create', params })
      await voice.flush()
      return Promise.race([once(record.events, 'answer'), closed])
    }
    case 'answer': {
      const result = {
        key,
        n: run.written++,
        content: [{ type: 'text', text: padding(step.padding) }]
      }
      return voice.say({ jsonrpc: '2.0', id: ids[step.index], result })
    }
    case 'end':
      await voice.flush()
      return voice.end()
    case 'destroy':
      await voice.flush()
      return res.destroy()
    case 'throw':
      await voice.flush()
      throw new Error('the endpoint throws')
  }
}

/** Letters of one to four bytes, so that writes and cuts fall within them. */
function padding(length: number): string {
  return 'aü€😀'.repeat(Math.ceil(length / 10)).slice(0, length)
}

interface Voice {
  /** Whether it can say anything but responses. */
  readonly says: boolean
  say(message: object): void
  comment(): void
  flush(): Promise<unknown>
  end(): void
}

class SseVoice implements Voice {
  readonly says = true
  readonly #res: ServerResponse
  readonly #plan: CallPlan
  #pending: string[] = []
  #n = 0

  constructor(res: ServerResponse, plan: CallPlan) {
    this.#res = res
    this.#plan = plan
  }

  say(message: object): void {
    const { lineEnd, shape } = this.#plan
    const id = shape === 'own-ids' ? `id: own-${this.#n++}${lineEnd}` : ''
    this.#put(`${id}event: message${lineEnd}data: ${JSON.stringify(message)}${lineEnd}${lineEnd}`)
  }

  comment(): void {
    const { lineEnd } = this.#plan
    this.#put(`: a comment${lineEnd}${lineEnd}`)
  }

  #put(text: string): void {
    this.#pending.push(text)
    if (!this.#plan.glued) this.#write()
  }

  async flush(): Promise<unknown> {
    const isAccepted = this.#write()
    const { destroyed, writableNeedDrain } = this.#res
    if (isAccepted || destroyed || !this.#plan.isPolite || !writableNeedDrain) return undefined
    const over = new AbortController()
    const { signal } = over
    await Promise.race(['drain', 'close'].map(name => once(this.#res, name, { signal }))).finally(
      () => over.abort()
    )
    return undefined
  }

  #write(): boolean {
    const res = this.#res
    if (res.destroyed) return true
    if (!res.headersSent) res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    const bytes = Buffer.from(this.#pending.splice(0).join(''))
    const most = this.#plan.writeBytes
    // At most a hundred pieces: it is their borders that matter.
    const size = most === 0 ? bytes.length : Math.max(most, Math.ceil(bytes.length / 100))
    let isAccepted = true
    for (let at = 0; at < bytes.length; at += size)
      isAccepted = res.write(bytes.subarray(at, at + size))
    return isAccepted
  }

  end(): void {
    if (!this.#res.headersSent) this.#write()
    this.#res.end()
  }
}

class JsonVoice implements Voice {
  readonly says = false
  readonly #res: ServerResponse
  readonly #responses: object[] = []
  readonly #isBatch: boolean

  constructor(res: ServerResponse, plan: CallPlan) {
    this.#res = res
    this.#isBatch = plan.requests > 1
  }

  say(message: object): void {
    this.#responses.push(message)
  }

  comment(): void {}

  flush(): Promise<unknown> {
    return Promise.resolve()
  }

  end(): void {
    if (this.#res.destroyed) return
    if (this.#responses.length === 0) return void this.#res.writeHead(500).end()
    this.#res.setHeader('Content-Type', 'application/json')
    this.#res.end(JSON.stringify(this.#isBatch ? this.#responses : this.#responses[0]))
  }
}
