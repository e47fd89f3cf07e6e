// What clients must not be able to do with a cursor or a stream parameter: break anything, or learn
// anything.

import { describe, expect, it } from '@jest/globals'
import { createServer, request as httpRequest } from 'node:http'
import express from 'express'
import { mcpStreams } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, notification, post } from '../../helpers/mcp.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'
import { streamId } from '../../helpers/serve.js'

const MEGABYTE = 2 ** 20
const HEADERS = headersFor({ version: '2025-11-25' })
const FRESH = 'notifications/fresh'
const REST = ['notifications/two', 'result']
const words = (stream: OpenStream): string[] =>
  stream.messages().map(({ method }) => method ?? 'result')

/**
 * A live call, and a server that takes headers up to 2 MB. `survives` checks in the end that
 * nothing of what was sent has done anything to the call.
 */
async function start() {
  const streams = mcpStreams()
  const endpoint = rawEndpoint(({ open, emit, message }) => {
    open()
    for (const name of message === undefined ? [FRESH] : ['notifications/one', REST[0]!])
      emit(notification(name))
  })
  const app = express().use('/mcp', streams).all('/mcp', endpoint)
  const { url: origin } = await listen(createServer({ maxHeaderSize: 2 * MEGABYTE }, app))
  closeLater(() => {
    for (const { res } of endpoint.calls) res.end()
    return streams.close({ drain: 0 })
  })
  const url = `${origin}/mcp`
  const stream = await post(url, callTool(1, 'any'), HEADERS)
  await stream.take(3)
  const id = streamId(stream)
  /** What the stream has for who asks with this query, once its call is over. */
  const restAt = async (query: string, lastEventId?: string): Promise<string[]> => {
    endpoint.calls[0]!.result()
    await stream.ended
    return words(await ended(get(`${url}?${query}`, headersFor({ lastEventId }))))
  }
  const survives = async (): Promise<void> => {
    expect(streams.stats().resumes).toBe(0)
    expect(stream.ending).toBeUndefined()
    expect(await restAt(`stream=${id}`, `${id}.1`)).toEqual(REST)
    expect([await stream.ended, words(stream)]).toEqual(['end', ['notifications/one', ...REST]])
  }
  /** A GET that reaches the endpoint. */
  const fresh = async (target: string, headers = {}): Promise<OpenStream> => {
    const answer = await openStream(target, { headers: { ...HEADERS, ...headers } })
    expect([answer.status, (await answer.nextMessage()).method]).toEqual([200, FRESH])
    expect(streamId(answer)).not.toBe(id)
    return answer
  }
  return { url, id, endpoint, survives, restAt, fresh }
}

/**
 * Sends a request line and headers byte by byte as given, as `fetch` and `node:http` would refuse
 * to. Resolves with the status and the body, which is an error where there is one.
 */
function ask(
  url: string,
  path: string,
  lastEventId?: string | string[]
): Promise<[status: number, body: Json]> {
  const { port } = new URL(url)
  const headers = { ...HEADERS, ...(lastEventId && { 'Last-Event-ID': lastEventId }) }
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ port, path, headers, agent: false }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => (text += chunk))
      response.on('end', () => resolve([response.statusCode!, text && JSON.parse(text)]))
      response.on('error', reject)
    })
    outgoing.on('error', reject)
    outgoing.end()
  })
}

const ERROR = {
  jsonrpc: '2.0',
  id: null,
  error: { code: -31000, message: expect.any(String), data: expect.anything() }
}

/** Ids that are not this stream's; `ID` stands for its id. */
const BAD_IDS: [name: string, lastEventId: string | string[]][] = [
  ['not one of ours', 'hello'],
  ['a number', '7'],
  ['the stream id alone', 'ID'],
  ['no sequence', 'ID.'],
  ['a negative sequence', 'ID.-1'],
  ['a leading zero', 'ID.01'],
  ['a sign', 'ID.+1'],
  ['a fraction too many', 'ID.1.1.1'],
  ['a count of 0', 'ID.1.0'],
  ['exponential', 'ID.1e3'],
  ['hexadecimal', 'ID.0x1'],
  ['space inside', 'ID. 1'],
  ['of the future', 'ID.3'],
  ['of the far future', 'ID.999999999999999'],
  ['beyond integers', 'ID.99999999999999999999999999'],
  ['repeated, and right each time', ['ID.1', 'ID.1']],
  ['a list', 'ID.1, ID.2'],
  ['binary', 'ID.1\x80\xff\xfe'],
  [
    'binary from end to end',
    Buffer.from(Array.from({ length: 200 }, (_, i) => 128 + (i % 128))).toString('latin1')
  ],
  ['JSON', '{"$ne":null}'],
  ['a path', '../../ID.1'],
  ['__proto__', '__proto__'],
  ['64 KB long', 'ID.1'.padEnd(64 * 1024, '1')],
  ['1 MB long', 'x'.repeat(MEGABYTE)]
]

const withId = (value: string | string[], id: string): string | string[] =>
  Array.isArray(value) ? value.map(one => one.replaceAll('ID', id)) : value.replaceAll('ID', id)

describe('Last-Event-ID on a stream URL', () => {
  it.each(BAD_IDS)('is 400 when it is bad: %s', async (_name, lastEventId) => {
    const { url, id, survives } = await start()
    expect(await ask(url, `/mcp?stream=${id}`, withId(lastEventId, id))).toEqual([400, ERROR])
    await survives()
  })

  it('is 400 when it is another stream’s, also of the same client', async () => {
    const { url, id, survives } = await start()
    const other = await post(url, callTool(2, 'any'), HEADERS)
    expect(await ask(url, `/mcp?stream=${id}`, `${streamId(other)}.1`)).toEqual([400, ERROR])
    await survives()
  })
})

describe('Last-Event-ID on the endpoint', () => {
  // What is not ours is the endpoint's: it may have ids of its own, and an old one of ours must not
  // break a client for good.
  it.each(BAD_IDS)('goes to the endpoint as a plain GET when it is bad: %s', async (_, bad) => {
    const { url, id, survives, fresh, endpoint } = await start()
    await fresh(url, { 'Last-Event-ID': withId(bad, id) })
    expect(endpoint.calls).toHaveLength(2)
    await survives()
  })

  it('of an unknown stream goes to the endpoint without the header, which would mean nothing to it', async () => {
    const { url, survives, fresh, endpoint } = await start()
    const unknown = `${'x'.repeat(21)}.5`
    await fresh(url, { 'Last-Event-ID': unknown })
    const { req } = endpoint.calls[1]!
    expect(req.headers['last-event-id']).toBeUndefined()
    expect(req.rawHeaders.join('\n')).not.toContain(unknown)
    await survives()
  })
})

/**
 * Queries that name a stream, and not one of this client's; `ID` stands for the id of a live
 * stream.
 */
const BAD_STREAMS: [name: string, query: string][] = [
  ['unknown', 'stream=xxxxxxxxxxxxxxxxxxxxx'],
  ['doubled, and right each time', 'stream=ID&stream=ID'],
  ['doubled, one of them encoded', 'stream=ID&%73tream=ID']
]

/** Queries whose parameter has not the form of a name of ours. */
const OTHER_STREAMS: [name: string, query: string][] = [
  ['without a value', 'stream'],
  ['empty', 'stream='],
  ['empty, among others', 'a=1&stream=&b=2'],
  ['made-up', 'stream=1'],
  ['with brackets', 'stream=ID[]'],
  ['with more behind it', 'stream=ID.1'],
  ['with a space behind it', 'stream=ID%20'],
  ['with a NUL', 'stream=ID%00'],
  ['NUL alone', 'stream=%00'],
  ['percent-encoded rubbish', 'stream=%zz%'],
  ['rubbish behind the id', 'stream=ID%f'],
  ['half a character', 'stream=%E0%A4%A'],
  ['bytes that are no UTF-8', 'stream=%ff%fe%80'],
  ['overlong UTF-8', 'stream=%c0%ae%c0%ae'],
  ['a path', 'stream=..%2F..%2Fetc%2Fpasswd'],
  ['a URL', 'stream=http://evil.example/ID'],
  ['__proto__', 'stream=__proto__'],
  ['constructor', 'stream=constructor'],
  // It comes back in the link, and Node's own client reads no longer heads than 16 KB.
  ['12 KB long', `stream=${'x'.repeat(12_000)}`],
  ['12 KB of percent signs', `stream=${'%'.repeat(12_000)}`],
  ['12 KB of parameters', 'stream=1&'.repeat(1300)]
]

describe('a stream parameter', () => {
  it.each(BAD_STREAMS)('is 404 when it is bad: %s', async (_name, query) => {
    const { url, id, survives, endpoint } = await start()
    expect(await ask(url, `/mcp?${query.replaceAll('ID', id)}`)).toEqual([404, ERROR])
    expect(endpoint.calls).toHaveLength(1)
    await survives()
  })

  it.each(OTHER_STREAMS)(
    'is the endpoint’s when it is no name of ours: %s',
    async (_name, query) => {
      const { url, id, survives, fresh, endpoint } = await start()
      const path = `/mcp?${query.replaceAll('ID', id)}`
      await fresh(`${new URL(url).origin}${path}`)
      expect(endpoint.calls[1]!.req).toMatchObject({ originalUrl: path })
      await survives()
    }
  )

  it('is the same 404, byte for byte, whatever is wrong with it', async () => {
    const { url, id } = await start()
    const answers = new Set<string>()
    for (const [, query] of BAD_STREAMS)
      answers.add(JSON.stringify(await ask(url, `/mcp?${query.replaceAll('ID', id)}`)))
    expect(answers.size).toBe(1)
  })

  it.each(['stream=true&stream=ID', 'stream=ID&stream=', 'stream&stream=ID.1&s%74ream=ID'])(
    'may stand beside one of the endpoint: %s',
    async query => {
      const { id, restAt } = await start()
      expect(await restAt(query.replaceAll('ID', id))).toEqual(['notifications/one', ...REST])
    }
  )

  it('may be percent-encoded: the URL means the same', async () => {
    const { id, restAt } = await start()
    const encoded = [...id].map(character => `%${character.charCodeAt(0).toString(16)}`).join('')
    expect(await restAt(`%73tream=${encoded}`)).toEqual(['notifications/one', ...REST])
  })

  it('that is absent makes a plain GET, and so do its neighbours', async () => {
    const { url, survives, fresh, endpoint } = await start()
    const beside = ['?', '?streams=1', '?Stream=1', '?xstream=1', '?a=stream', '?a=b%3Fstream=1']
    for (const query of ['', ...beside]) await fresh(`${url}${query}`)
    expect(endpoint.calls).toHaveLength(8)
    await survives()
  })

  it.each([
    ['longer than the headers that Node takes, is 431', 'x'.repeat(20_000), 431],
    ['not ASCII, is 400', 'ü', 400]
  ])('that is %s, from Node', async (_name, value, status) => {
    const streams = mcpStreams()
    const { url } = await listen(express().use('/mcp', streams))
    closeLater(() => streams.close({ drain: 0 }))
    expect((await ask(url, `/mcp?stream=${value}`))[0]).toBe(status)
  })
})
