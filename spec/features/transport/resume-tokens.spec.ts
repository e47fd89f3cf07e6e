// Resume tokens on wires: "the request may terminate or remain open as this call flow is transport
// and streaming agnostic".

import { describe, expect, it } from '@jest/globals'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { WebSocket } from 'ws'
import { callResumable } from '../../../lib/client/index.js'
import { currentStream, mcpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { resumableTransport } from '../../../lib/wires/index.js'
import { createServer, ToolLog } from '../../helpers/endpoints/sdk-v1.js'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import {
  ended,
  initialize,
  initialized,
  notification,
  post,
  request,
  result
} from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { sleep } from '../../helpers/sleep.js'
import { DECLARED, isCreate, openSession, type RawWire } from './raw-wire.js'
import { connectWire, serveWires, SETUPS, WebSocketTransport } from './web-socket.js'

/** Soon enough for a spec that waits for it, and late enough for an answer that comes at once. */
const SOON = 40
const TEXT = (text: string) => ({ content: [{ type: 'text' as const, text }] })

const serve = (options: McpStreamsOptions = {}, ownerOf?: (url: string) => string | undefined) => {
  const { resumeTokens } = options
  const tokens = resumeTokens === false ? resumeTokens : { after: SOON, ...resumeTokens }
  return serveWires('v1', { ...options, resumeTokens: tokens }, ownerOf)
}

/** `tools/call`, with something in its `_meta`. */
const call = (id: number | string, name: string, args: object, meta?: object): Json =>
  request(id, 'tools/call', { name, arguments: args, ...(meta !== undefined && { _meta: meta }) })

const ASKING = { resumeToken: null }
const WAIT = { 'express-mcp-streams/wait': SOON }
const SCHEMA = { type: 'object' as const, properties: { answer: { type: 'string' as const } } }
const PACED = { key: 'a', n: 2, paced: true }

async function ask(wire: RawWire, message: Json): Promise<Json> {
  const earlier = wire.messages.length
  wire.send(message)
  for (let n = earlier + 1; ; n++) {
    const answer = await wire.messages.nth(n)
    if (answer.id === message.id && answer.method === undefined) return answer
  }
}

function tokenOf(answer: Json): string {
  const token = answer.result?._meta?.nextResumeToken
  if (typeof token !== 'string') throw new Error(`no token in ${JSON.stringify(answer)}`)
  return token
}

const reasonOf = (answer: Json): unknown => [answer.error?.code, answer.error?.data?.reason]

describe.each([
  ['does not know streams', { elicitation: {} }],
  ['declares streams', DECLARED]
])('a client that %s', (_who, capabilities) => {
  it('gets tokens where it asks for them, until the result is there, and the tool runs once', async () => {
    const { url, log, streams } = await serve()
    const wire = await openSession(url, capabilities)
    const first = await ask(wire, call(1, 'count', PACED, ASKING))
    expect(first).toMatchObject({
      id: 1,
      result: { content: [], _meta: { nextResumeToken: expect.stringMatching(/^[\w-]{21}$/) } }
    })
    expect(streams.stats().calls).toBe(1)
    const second = await ask(wire, call(2, 'count', PACED, { resumeToken: tokenOf(first) }))
    wire.send(call('three', 'count', PACED, { resumeToken: tokenOf(second) }))
    log.release('a', 3)
    expect((await wire.response('three')).result).toMatchObject(TEXT('counted to 2'))
    // As in the draft, under the id of the first request; and whoever has lost the result gets it
    // again.
    const again = await ask(wire, call(1, 'count', PACED, { resumeToken: tokenOf(second) }))
    expect(again.result).toMatchObject(TEXT('counted to 2'))
    expect(again.result._meta?.nextResumeToken).toBeUndefined()
    expect(log.executions('a')).toBe(1)
    expect(streams.stats()).toMatchObject({ calls: 1 })
  })

  it('goes on with its token on another wire, in another session', async () => {
    const { url, log, closed } = await serve()
    const wire = await openSession(url, capabilities)
    const first = await ask(wire, call(1, 'count', PACED, ASKING))
    await wire.drop()
    const other = await openSession(url, capabilities)
    const second = await ask(
      other,
      call(1, 'count', PACED, { resumeToken: tokenOf(first), progressToken: 'p' })
    )
    expect(closed).toHaveLength(0)
    other.send(call(2, 'count', PACED, { resumeToken: tokenOf(second) }))
    log.release('a', 3)
    expect((await other.response(2)).result).toMatchObject(TEXT('counted to 2'))
    expect(log.executions('a')).toBe(1)
  })

  it('is told how long tools take, in the list of them', async () => {
    const { url } = await serve({ resumeTokens: { hints: { count: { typical: 5000 } } } })
    const wire = await openSession(url, capabilities)
    const { tools } = (await ask(wire, request(1, 'tools/list'))).result
    const hinted = { name: 'count', _meta: { durationHint: { typical: 5000 } } }
    expect(tools).toContainEqual(expect.objectContaining(hinted))
  })

  it('loses the wire while it waits with a token, and the next answer is there for the same token', async () => {
    const { url, log } = await serve({ resumeTokens: { after: 5000 } })
    const wire = await openSession(url, capabilities)
    const resumeToken = tokenOf(await ask(wire, call(1, 'count', PACED, { ...ASKING, ...WAIT })))
    wire.send(call(2, 'count', PACED, { resumeToken }))
    await ask(wire, request('ping', 'ping'))
    await wire.drop()
    log.release('a', 3)
    const other = await openSession(url, capabilities)
    expect((await ask(other, call(3, 'count', PACED, { resumeToken }))).result).toMatchObject(
      TEXT('counted to 2')
    )
    expect(log.executions('a')).toBe(1)
  })

  it('hears progress by the token of the request that is open, and nothing without one', async () => {
    const { url, log } = await serve({ resumeTokens: { after: 5000 } })
    const wire = await openSession(url, capabilities)
    const asking = { ...ASKING, ...WAIT, progressToken: 'one' }
    const resumeToken = tokenOf(await ask(wire, call(1, 'count', PACED, asking)))
    log.release('a', 1)
    wire.send(call(2, 'count', PACED, { resumeToken, progressToken: 'two' }))
    log.release('a', 2)
    await wire.response(2)
    const progress = wire.messages.filter(({ method }) => method === 'notifications/progress')
    expect(progress.map(({ params }) => [params.progressToken, params.progress])).toEqual([
      ['two', 1],
      ['two', 2]
    ])
  })

  it('gets an unanswered question again on the next connection, and its answer counts once', async () => {
    const { url, log, servers } = await serve({ resumeTokens: { after: 5000 } })
    const wire = await openSession(url, capabilities)
    const [mcp] = servers
    mcp!.registerTool('ask', {}, async ({ requestId }) => {
      await log.permit('a')
      const options = { relatedRequestId: requestId }
      const { content } = await mcp!.server.elicitInput(
        { message: 'Who?', requestedSchema: SCHEMA },
        options
      )
      return { content: [{ type: 'text', text: JSON.stringify(content) }] }
    })
    const resumeToken = tokenOf(await ask(wire, call(1, 'ask', {}, { ...ASKING, ...WAIT })))
    wire.send(call(2, 'ask', {}, { resumeToken }))
    log.release('a', 1)
    await wire.find(({ method }) => method === 'elicitation/create')
    await wire.drop()
    const other = await openSession(url, capabilities)
    // It stays open for as long as its client is asked something.
    other.send(call(3, 'ask', {}, { resumeToken, ...WAIT }))
    const again = await other.find(({ method }) => method === 'elicitation/create')
    expect(again.params.message).toBe('Who?')
    await sleep(3 * SOON)
    expect(other.messages.some(({ id }) => id === 3)).toBe(false)
    const errors: Error[] = []
    for (const { server } of servers) server.onerror = error => errors.push(error)
    const answer = result(again.id, { action: 'accept', content: { answer: 'Ann' } })
    other.send(answer, answer)
    expect((await other.response(3)).result.content[0].text).toContain('Ann')
    expect(errors).toEqual([])
  })

  it('cancels the call with the request that is open', async () => {
    const { url, log, streams } = await serve({ resumeTokens: { after: 5000 } })
    const wire = await openSession(url, capabilities)
    const resumeToken = tokenOf(
      await ask(wire, call(1, 'hang', { key: 'a' }, { ...ASKING, ...WAIT }))
    )
    wire.send(call(2, 'hang', { key: 'a' }, { resumeToken }))
    wire.send(notification('notifications/cancelled', { requestId: 2 }))
    await log.ended.nth(1)
    expect(log.aborted('a')).toBe(1)
    const late = await ask(wire, call(3, 'hang', { key: 'a' }, { resumeToken }))
    expect(reasonOf(late)).toEqual([-32602, 'token-cancelled'])
    expect(wire.messages.some(({ id, error, result }) => id === 2 && (error ?? result))).toBe(false)
    expect(streams.stats().calls).toBe(0)
  })

  it('that does not come back has its call abandoned, and its session ended', async () => {
    const { url, log, closed, transports, streams } = await serve({
      resumeInterval: { min: 0, max: 0.1 }
    })
    const wire = await openSession(url, capabilities)
    const resumeToken = tokenOf(await ask(wire, call(1, 'hang', { key: 'a' }, ASKING)))
    await wire.drop()
    await log.ended.nth(1)
    await closed.nth(1)
    expect([...closed]).toEqual([transports[0]])
    expect(log.aborted('a')).toBe(1)
    const other = await openSession(url, capabilities)
    const late = await ask(other, call(1, 'hang', { key: 'a' }, { resumeToken }))
    expect(reasonOf(late)).toEqual([-32602, 'token-expired'])
    expect(streams.stats().calls).toBe(0)
  })

  it('that leaves before it has a token has its call cancelled as without tokens', async () => {
    const { url, log, closed } = await serve({
      resumeTokens: { after: 20_000 },
      resumeInterval: { min: 0, max: 0.1 }
    })
    const wire = await openSession(url, capabilities)
    wire.send(call(1, 'hang', { key: 'a' }, ASKING))
    await log.calls.nth(1)
    await wire.drop()
    await log.ended.nth(1)
    await closed.nth(1)
    expect(log.aborted('a')).toBe(1)
  })

  it('gets a part of the result as soon as there is one', async () => {
    const { url, servers } = await serve({ resumeTokens: { after: 20_000 } })
    const wire = await openSession(url, capabilities)
    servers[0]!.registerTool('parts', {}, async () => {
      for (const text of ['one', 'two']) currentStream()?.partial(TEXT(text))
      return TEXT('three')
    })
    const first = await ask(wire, call(1, 'parts', {}, ASKING))
    expect(first.result).toMatchObject(TEXT('one'))
    const second = await ask(wire, call(2, 'parts', {}, { resumeToken: tokenOf(first) }))
    expect(second.result).toMatchObject(TEXT('two'))
    const last = await ask(wire, call(3, 'parts', {}, { resumeToken: tokenOf(second) }))
    expect(last.result).toMatchObject(TEXT('three'))
  })

  it('is told that the process ends', async () => {
    const { url, streams, log } = await serve({ resumeTokens: { after: 20_000 } })
    const wire = await openSession(url, capabilities)
    wire.send(call(1, 'hang', { key: 'a' }, ASKING))
    await log.calls.nth(1)
    void streams.close({ drain: 0 })
    expect((await wire.response(1)).error.data).toMatchObject({ reason: 'closing' })
    await log.ended.nth(1)
  })
})

describe('a token of a wire', () => {
  it('is its owner’s, and of no use over HTTP', async () => {
    const { url, log, streams } = await serve({}, path => path.slice(1) || undefined)
    const wire = await openSession(`${url}/alice`, {})
    const resumeToken = tokenOf(await ask(wire, call(1, 'count', PACED, ASKING)))
    for (const path of ['/bob', '/']) {
      const other = await openSession(url + path, {})
      expect(reasonOf(await ask(other, call(1, 'count', PACED, { resumeToken })))).toEqual([
        -32602,
        'token-invalid'
      ])
    }
    const { port } = await listen((req, res) => streams(req, res, () => res.writeHead(404).end()))
    const overHttp = await ended(
      post(`http://127.0.0.1:${port}/mcp`, call(1, 'count', PACED, { resumeToken }))
    )
    expect(reasonOf(JSON.parse(overHttp.text))).toEqual([-32602, 'token-invalid'])
    const mine = await openSession(`${url}/alice`, {})
    log.release('a', 3)
    expect(await ask(mine, call(1, 'count', PACED, { resumeToken }))).toHaveProperty('result')
  })

  it('is given to no more calls than may run, and to none where tokens are off', async () => {
    const { url, log, streams } = await serve({ maxStreams: 2 })
    const wire = await openSession(url, {})
    for (const id of [1, 2]) tokenOf(await ask(wire, call(id, 'hang', { key: 'h' }, ASKING)))
    const third = ask(wire, call(3, 'count', PACED, ASKING))
    await log.calls.nth(3)
    await sleep(2 * SOON)
    log.release('a', 3)
    expect((await third).result._meta).toBeUndefined()
    expect(streams.stats().calls).toBe(2)

    const { url: off, log: offLog } = await serve({ resumeTokens: false })
    const bare = await openSession(off, {})
    offLog.release('a', 3)
    const answer = await ask(bare, call(1, 'count', PACED, { resumeToken: 'adef50' }))
    expect(answer.result).toMatchObject(TEXT('counted to 2'))
  })
})

describe('the end of a session', () => {
  it('cancels its calls where its client says so, and fails them where its server does', async () => {
    const { url, log, servers } = await serve()
    const wire = await openSession(url)
    const { streamId } = (await wire.find(isCreate)).params.stream
    const cancelled = tokenOf(await ask(wire, call(1, 'hang', { key: 'a' }, ASKING)))
    wire.send(notification('notifications/stream/end', { streamId }))
    await log.ended.nth(1)
    const other = await openSession(url)
    const failed = tokenOf(await ask(other, call(1, 'hang', { key: 'a' }, ASKING)))
    await servers[1]!.close()
    const third = await openSession(url)
    const reasons = []
    for (const resumeToken of [cancelled, failed])
      reasons.push(reasonOf(await ask(third, call(1, 'hang', { key: 'a' }, { resumeToken }))))
    expect(reasons).toEqual([
      [-32602, 'token-cancelled'],
      [-31000, 'session-ended']
    ])
    expect(log.aborted('a')).toBe(2)
  })

  it('ends what its client cannot collect: its other calls, and questions of its server', async () => {
    const { url, log, servers } = await serve()
    const wire = await openSession(url, { elicitation: {}, roots: {} })
    const resumeToken = tokenOf(await ask(wire, call(1, 'count', PACED, ASKING)))
    wire.send(call(2, 'hang', { key: 'b' }))
    const roots = servers[0]!.server.listRoots().catch((error: unknown) => error)
    await wire.find(({ method }) => method === 'roots/list')
    await log.calls.nth(2)
    await wire.drop()
    await log.ended.nth(1)
    expect([log.aborted('a'), log.aborted('b')]).toEqual([0, 1])
    expect(await roots).toMatchObject({ data: { reason: 'unanswered' } })
    const other = await openSession(url, {})
    log.release('a', 3)
    expect(await ask(other, call(1, 'count', PACED, { resumeToken }))).toHaveProperty(
      'result.content'
    )
  })
})

describe.each(SETUPS)('callResumable, with the official SDK, %s', setup => {
  it('collects a result through wires that are cut, once', async () => {
    const { url, log, proxy } = await serveWires(setup, { resumeTokens: { after: SOON } })
    const { client } = await connectWire(setup, url)
    const params = { name: 'count', arguments: { key: 'a', n: 2, paced: true } }
    const parts: unknown[] = []
    const calling = callResumable(
      client as Client,
      { method: 'tools/call', params },
      { onPartial: part => parts.push(part) }
    )
    await log.calls.nth(1)
    log.release('a', 1)
    await sleep(3 * SOON)
    proxy.cutNow('rst')
    await sleep(3 * SOON)
    log.release('a', 2)
    expect(await calling).toMatchObject(TEXT('counted to 2'))
    expect(log.executions('a')).toBe(1)
    expect(parts).toEqual([])
  })
})

it('callResumable goes over a transport of the SDK as it is', async () => {
  const { url, log } = await serve()
  const client = new Client({ name: 'spec', version: '1.0.0' })
  closeLater(() => client.close())
  await client.connect(new WebSocketTransport(new WebSocket(url)))
  const calling = callResumable(client, {
    method: 'tools/call',
    params: { name: 'count', arguments: PACED }
  })
  await log.calls.nth(1)
  await sleep(3 * SOON)
  log.release('a', 3)
  expect(await calling).toMatchObject(TEXT('counted to 2'))
})

it('tokens work over lines, as on a pipe', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const lines = new Awaitable<Json>()
  createInterface(output).on('line', line => lines.push(JSON.parse(line)))
  const log = new ToolLog()
  const streams = mcpStreams({ resumeTokens: { after: SOON } })
  const transport = resumableTransport(new StdioServerTransport(input, output), streams)
  closeLater(() => Promise.all([streams.close({ drain: 0 }), transport.close()]))
  await createServer(log, {}).connect(transport)
  const send = (message: object) => input.write(`${JSON.stringify(message)}\n`)
  send(initialize('2025-11-25'))
  send(initialized())
  send(call(1, 'count', PACED, ASKING))
  const resumeToken = tokenOf(await lines.nth(2))
  send(call(2, 'count', PACED, { resumeToken, ...WAIT }))
  log.release('a', 3)
  const isAnswer = () => lines.some(({ id }) => id === 2)
  await until(isAnswer)
  expect(lines.at(-1)).toMatchObject({ id: 2, result: TEXT('counted to 2') })
})
