// `DEBUG=mcp-streams`: a line for every decision, and no line that gives a stream away.

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { setImmediate as turn } from 'node:timers/promises'
import { disable, enable } from 'obug'
import supertest from 'supertest'
import { currentStream, mcpStreams } from '../../../lib/index.js'
import {
  rawEndpoint,
  type RawEndpointOptions,
  type RawScript
} from '../../helpers/endpoints/raw.js'
import { happenings, until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import {
  callTool,
  cancelled,
  del,
  ended,
  get,
  headersFor,
  initialize,
  post,
  postModern,
  request
} from '../../helpers/mcp.js'
import { anywhere, at, note, VERSION } from '../backplane/setup.js'
import { openStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl, type Served } from '../../helpers/serve.js'

const lines: string[] = []
const { write } = process.stderr

beforeEach(() => {
  lines.length = 0
  process.stderr.write = (text: unknown) => {
    const line = String(text)
      .replace(/\n$/, '')
      .replace(/^\S+ mcp-streams /, '')
    return lines.push(line.replace(/\d+ ms(?=, c)/, 'n ms')) > 0
  }
  enable('mcp-streams')
})

afterEach(() => {
  disable()
  process.stderr.write = write
})

const headers = headersFor({ version: '2025-11-25' })
const answers: RawScript = ({ result }) => result({})
const holds: RawScript = ({ open }) => open()
const raw = (script: RawScript, options?: RawEndpointOptions) => rawEndpoint(script, options)

/** What a log may show of a stream. */
const short = (id: string) => `${id.slice(0, 6)}…`

async function called(
  script: RawScript,
  options: Parameters<typeof serve>[1] = {},
  sent = headers
) {
  const endpoint = raw(script)
  const served = await serve(endpoint, options)
  const response = await post(served.url, callTool(1, 'x'), sent)
  const id = streamId(response)
  return {
    ...served,
    endpoint,
    response,
    id,
    own: streamUrl(response, served.url),
    name: `stream ${short(id)}`
  }
}

/** What the line for an end says of it. */
const over = (connections = 1) => `(n ms, connections: ${connections})`

describe('a response that is left alone says why:', () => {
  const json: RawScript = ({ res }) => {
    res.setHeader('Content-Type', 'application/json')
    res.end('{}')
  }

  it('but for plain JSON, and for 202, where nobody would expect a stream', async () => {
    const { url } = await serve(
      raw(script => (script.message.id === 1 ? json(script) : void script.res.writeHead(202).end()))
    )
    for (const id of [1, 2]) await post(url, callTool(id, 'x'), headers)
    expect(lines).toEqual([])
  })

  it.each<[why: string, script: RawScript, send: (served: Served) => Promise<unknown>]>([
    [
      'POST response left alone: status 401',
      ({ res }) => void res.writeHead(401).end(),
      async ({ url }) => post(url, callTool(1, 'x'), headers)
    ],
    [
      'POST response left alone: it is text/plain',
      ({ res }) => void res.setHeader('Content-Type', 'text/plain').end(),
      async ({ url }) => post(url, callTool(1, 'x'), headers)
    ],
    [
      'POST response left alone: it is encoded (gzip)',
      ({ open, res }) => {
        open({ 'Content-Encoding': 'gzip' })
        res.end()
      },
      async ({ url }) => post(url, callTool(1, 'x'), headers)
    ],
    [
      'POST response left alone: revision without resumption',
      answers,
      async ({ url }) => postModern(url, callTool(1, 'x'))
    ],
    [
      'POST response left alone: revision without resumption',
      answers,
      async ({ url }) => postModern(url, request(1, 'initialize', {}))
    ],
    [
      'DELETE passed on untouched: no stream to come',
      ({ res }) => void res.end(),
      async ({ url }) => openStream(url, { method: 'DELETE', headers: { 'mcp-session-id': 's' } })
    ],
    [
      'OPTIONS passed on: not MCP',
      ({ res }) => void res.end(),
      async ({ url }) => openStream(url, { method: 'OPTIONS' })
    ],
    [
      'POST passed on: not MCP',
      ({ res }) => void res.end(),
      async ({ url }) => post(url, { order: 1 })
    ]
  ])('%s', async (why, script, send) => {
    const served = await serve(raw(script))
    await send(served)
    expect(lines).toContain(why)
  })

  it('option eventStore', async () => {
    const served = await serve(
      raw(({ result }) => result()),
      { eventStore: 'leave' }
    )
    await post(served.url, callTool(1, 'x'), headers)
    expect(lines).toContain('POST response left alone: option eventStore')
  })

  it('closing', async () => {
    const served: Served = await serve(
      raw(({ result, message }) => {
        if (message.id === 1) void served.streams.close({ drain: 0 })
        result()
      })
    )
    await post(served.url, callTool(1, 'x'), headers)
    // It had come before.
    expect(lines.at(-1)).toMatch(/^stream \S+ completed/)
    await post(served.url, callTool(2, 'x'), headers)
    expect(lines.at(-1)).toBe('POST passed on untouched: closing')
  })

  it('everything is live and full', async () => {
    const { url } = await called(holds, { maxStreams: 1 })
    await post(url, callTool(2, 'x'), headers)
    expect(lines.at(-1)).toBe('POST response left alone: everything is live and full')
  })

  it('another instance in front', async () => {
    const [outer, inner] = [mcpStreams(), mcpStreams()]
    for (const streams of [outer, inner]) closeLater(() => streams.close({ drain: 0 }))
    const { url } = await listen(
      express()
        .use('/mcp', outer, inner)
        .all('/mcp', raw(answers) as RequestHandler)
    )
    await post(`${url}/mcp`, callTool(1, 'x'), headers)
    expect(lines).toContain('POST passed on: already handled by another mcpStreams()')
  })
})

describe('the life of a stream has a line each:', () => {
  it('created, completed', async () => {
    const { response, name } = await called(answers)
    await response.ended
    expect(lines).toEqual([
      `${name} created`,
      `${name} answers tools/call x`,
      `${name} completed ${over()}`
    ])
  })

  it('connection lost, and over how many it came in the end', async () => {
    const { response, name, own, endpoint, streams } = await called(holds)
    response.destroy()
    await until(() => streams.stats().connections === 0)
    expect(lines.at(-1)).toBe(`${name}: connection lost after event 0`)
    const resumed = await get(own)
    endpoint.calls[0]!.result({})
    await resumed.ended
    expect(lines.at(-1)).toBe(`${name} completed ${over(2)}`)
  })

  it('failed, with the reason', async () => {
    const { response, name } = await called(({ open, res }) => {
      open()
      res.end()
    })
    await response.ended
    expect(lines).toContain(
      `${name} failed ${over()}: The server ended the stream without a response`
    )
  })

  it('cancelled, by DELETE or by the client that says so', async () => {
    const { own, name, endpoint } = await called(holds)
    await del(own)
    await endpoint.calls[0]!.closed
    expect(lines.slice(2).sort()).toEqual([
      `${name} cancelled ${over()}`,
      `${name} cancelled by DELETE`
    ])
  })

  it('cancelled, by a session that its client has ended', async () => {
    const { url } = await serve(
      raw(({ req, res, open }) => (req.method === 'DELETE' ? res.end() : open()))
    )
    const session = headersFor({ session: 's' })
    const response = await post(url, callTool(1, 'x'), session)
    await del(url, session)
    await response.ended
    expect(lines).toContain('session ended by DELETE: 1 streams dropped')
    expect(lines).toContain(`stream ${short(streamId(response))} cancelled ${over()}`)
  })

  it('abandoned', async () => {
    const abandoned = happenings('abandoned')
    const { response, name } = await called(holds, { resumeInterval: { max: 0.02 } })
    response.destroy()
    await abandoned.nth(1)
    expect(lines).toContain(
      `${name} abandoned ${over()}: The stream was abandoned: no client came back for it in time`
    )
  })

  it('evicted', async () => {
    const { response, url, name } = await called(answers, { maxStreams: 1 })
    await response.ended
    await post(url, callTool(2, 'x'), headers)
    expect(lines).toContain(`${name} evicted`)
  })

  it('resumed, and from whom', async () => {
    const { response, name, own, url, id } = await called(({ open, emit }) => {
      open()
      emit({ jsonrpc: '2.0', method: 'notifications/x' })
    })
    await response.nextMessage()
    await get(own)
    expect(lines.at(-1)).toBe(`${name} resumed after event 0, older connection closed`)
    const second = await get(url, { ...headers, 'last-event-id': `${id}.1` })
    second.destroy()
    expect(lines.at(-1)).toBe(`${name} resumed after event 1, older connection closed`)
  })

  it('disconnected at will, or not', async () => {
    const script: RawScript = async ({ open }) => {
      open()
      await turn()
      currentStream()!.disconnect({ retry: 1500 })
    }
    const { response, name } = await called(script, {}, { ...headers, prefer: 'rel=stream' })
    await response.ended
    expect(lines).toContain(`${name}: disconnected at will, to come back in 1500 ms`)
    const other = await called(script)
    await until(() => lines.at(-1)!.includes('at will'))
    expect(lines.at(-1)).toBe(
      `${other.name}: not disconnected at will, its client has not shown that it comes back`
    )
  })
})

describe('a request about a stream that gets none has a line each:', () => {
  const X = 'x'.repeat(21)

  it.each<[line: string, send: (call: Awaited<ReturnType<typeof called>>) => Promise<unknown>]>([
    [
      'GET of stream xxxxxx… refused with 404: stream-unknown, unknown here',
      ({ url }) => get(`${url}?stream=${X}`)
    ],
    [
      'GET of stream STREAM refused with 404: stream-unknown, another owner',
      ({ own }) => get(own, { authorization: 'x' })
    ],
    [
      'GET of stream STREAM at the endpoint not resumed: another session',
      ({ url, id }) => get(url, { ...headersFor({ session: 't' }), 'last-event-id': `${id}.r1.1` })
    ],
    [
      'GET of stream STREAM at the endpoint not resumed: an event that it has not had',
      ({ url, id }) => get(url, { ...headers, 'last-event-id': `${id}.r1.7` })
    ],
    [
      'GET of stream xxxxxx… at the endpoint not resumed: unknown here',
      ({ url }) => get(url, { ...headers, 'last-event-id': `${X}.r1.1` })
    ],
    [
      'GET of stream STREAM refused with 403: foreign-origin',
      ({ own }) => get(own, { origin: 'https://evil.example' })
    ],
    [
      'PUT of stream STREAM refused with 405: method-not-allowed',
      ({ own }) => openStream(own, { method: 'PUT' })
    ],
    [
      'GET of stream STREAM refused with 400: invalid-event-id',
      ({ own }) => get(own, { 'last-event-id': 'x' })
    ],
    [
      'stream STREAM: nothing left to send, 204',
      ({ own, id }) => get(own, { 'last-event-id': `${id}.1` })
    ],
    [
      'stream STREAM: nothing left to send, 204',
      ({ url, id }) => get(url, { ...headers, 'last-event-id': `${id}.1` })
    ],
    [
      'Last-Event-ID not resumed, passed on as a plain GET: not a stream of this client',
      ({ url }) => get(url, { ...headers, 'last-event-id': `${X}.1` })
    ]
  ])('%s', async (line, send) => {
    const call = await called(({ req, res, result }) =>
      req.method === 'GET' ? res.writeHead(405).end() : result({})
    )
    await call.response.ended
    await send(call)
    expect(lines).toContain(line.replace('STREAM', short(call.id)))
  })

  it('other instance: it is sent there, or that has gone', async () => {
    const LEASE = 300
    const all = await anywhere({}, { lease: LEASE })
    const { first, call, link } = await all.call()
    call.emit(note('one'))
    await first.nextMessage()
    const id = streamId(first)
    first.destroy()
    await until(() => all.members.every(({ streams }) => streams.stats().backplane.up === 1))
    await new Promise(resolve => setTimeout(resolve, LEASE * 1.2))
    const comeBack = () => get(at(link, all, 1), headersFor({ version: VERSION }))
    const back = await comeBack()
    await back.nextMessage()
    expect(lines).toContain(`GET of stream ${short(id)}: other instance, sent to ${id.slice(0, 5)}`)
    back.destroy()

    all.members[0]!.backplane.isUp = false
    await ended(comeBack())
    expect(lines).toContain(
      `GET of stream ${short(id)}: other instance, which has gone: owner-gone`
    )
  })

  it('other instance: what it has cannot be known', async () => {
    const all = await anywhere({}, { lease: 60_000 })
    const { streams, backplane } = all.members[0]!
    await until(() => streams.stats().backplane.up === 1)
    await streams.close({ drain: 0 })
    backplane.isUp = false
    const sent = headersFor({ version: VERSION, session: 's' })
    expect(await post(all.urls[0]!, callTool(1, 'any'), sent)).toMatchObject({ status: 503 })
    expect(lines).toContain('POST: other instance, out of reach: owner-unreachable')
  })

  it('410', async () => {
    const { response, own, url } = await called(answers, { maxStreams: 1 })
    await response.ended
    await post(url, callTool(2, 'x'), headers)
    await supertest(own).get('').expect(410)
    expect(lines.at(-1)).toMatch(/^GET of stream \S{6}… refused with 410: stream-expired$/)
  })

  it('an error in place of events that are gone', async () => {
    const { response, url, id, name } = await called(answers, { maxStreams: 1 })
    await response.ended
    await post(url, callTool(2, 'x'), headers)
    await ended(get(url, { ...headers, 'last-event-id': `${id}.0.1` }))
    expect(lines.at(-1)).toBe(`${name}: events after 0 are gone, told as an error: stream-expired`)
  })

  it('an owner that could not be determined', async () => {
    const { url } = await serve(raw(answers), {
      owner: () => {
        throw new Error('no database')
      }
    })
    await post(url, callTool(1, 'x'))
    expect(lines.at(-1)).toMatch(/^owner failed: Error: no database/)
  })
})

describe('no line', () => {
  it('holds a stream id, an event id, a token or a session id in full', async () => {
    const secret = 'secret-session'
    const { url } = await serve(
      raw(({ open, message, res }) => (message.id === undefined ? res.end() : open()), {
        session: secret
      }),
      {}
    )
    const auth = headersFor({ auth: 'secret-token', session: secret, version: '2025-11-25' })
    await post(url, initialize('2025-11-25'), auth)
    const response = await post(url, callTool(1, 'x'), auth)
    const own = streamUrl(response, url)
    await get(own, auth)
    await get(url, { ...auth, 'last-event-id': `${streamId(response)}.0.1` })
    await get(own, { authorization: 'secret-other' })
    await post(url, cancelled(1), auth)
    await del(own, auth)
    expect(lines.length).toBeGreaterThan(5)
    expect(lines.join('\n')).not.toMatch(new RegExp(`${streamId(response)}|secret`))
  })

  it('is forged, or commands a terminal, whatever stands in a request or is thrown', async () => {
    const forged = 'x\nmcp-streams stream AAAAAA… cancelled\r\u001b[2J\u009b2J\u2028\u202e'
    const { url } = await serve(
      raw(({ req, res, result }) => (req.method === 'GET' ? res.writeHead(405).end() : result({}))),
      {
        owner: req => {
          if (req.headers['x-fail'] === undefined) return 'somebody'
          throw new Error(forged)
        }
      }
    )
    const asking = { _meta: { resumeToken: 't' } }
    const sent: unknown[] = [
      request(1, forged, asking),
      request(1, 'stream/poll', { streamId: forged }),
      request(1, 'y'.repeat(100_000), asking)
    ]
    for (const message of sent) await (await post(url, message, headers)).ended
    for (const more of [{ 'x-fail': '1' }, { 'last-event-id': '\u009b2J' }])
      await get(url, { ...headers, ...more })
    expect(lines.filter(line => line.includes('x\\nmcp-streams'))).toHaveLength(2)
    expect(lines.join('')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
    expect(lines.filter(line => line.length > 5000)).toEqual([])
  })

  it('is written, or worked for, while nobody listens', async () => {
    disable()
    await (
      await called(answers)
    ).response.ended
    expect(lines).toEqual([])
  })
})
