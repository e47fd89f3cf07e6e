// What is wrong with a POST of answers: each has its status and its name, and nothing of a refused
// POST has been taken.

import { beforeEach, describe, expect, it } from '@jest/globals'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { gate } from '../../helpers/gate.js'
import { closeLater } from '../../helpers/listen.js'
import {
  callTool,
  cancelled,
  ended,
  headersFor,
  notification,
  post,
  request,
  result
} from '../../helpers/mcp.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl, type Served } from '../../helpers/serve.js'
import { ANNOUNCED, askingEndpoint, QUICK, yes, type AskingEndpoint } from './asking.js'

const ALICE = { ...ANNOUNCED, ...headersFor({ auth: 'alice', session: 's' }) }
const MEBIBYTE = 1024 * 1024

let served: Served
let endpoint: AskingEndpoint
let first: OpenStream
let link: string

const start = async (options = {}) => {
  endpoint = askingEndpoint(
    async (call, ask) => {
      const { only } = call.message.params.arguments
      await Promise.all(only === undefined ? [ask(0), ask('b')] : [ask(only)])
      call.result()
    },
    { session: 's' }
  )
  served = await serve(endpoint, { ...QUICK, ...options })
  first = await post(served.url, callTool(1, 'any'), ALICE)
  await first.ended
  link = streamUrl(first, served.url)
}
beforeEach(() => start())

const send = (
  body: unknown,
  headers: Record<string, string | undefined> = {},
  url = link
): Promise<OpenStream> =>
  openStream(url, { method: 'POST', body, headers: { ...ALICE, ...headers } })

/** A refusal is JSON, a JSON-RPC error without an id, and names its reason. */
async function expectRefused(response: OpenStream, status: number, reason: string) {
  expect(response.status).toBe(status)
  expect(response.headers['content-type']).toBe('application/json')
  expect(response.headers.link).toBeUndefined()
  expect(await response.json()).toEqual({
    jsonrpc: '2.0',
    id: null,
    error: { code: -31000, message: expect.stringMatching(/./), data: { reason } }
  })
}

/** Everything is as it was: both answers are awaited, and get the turn. */
async function expectNothingTaken() {
  expect(endpoint.answers).toHaveLength(0)
  expect(served.streams.stats()).toMatchObject({ waiting: 1, connections: 0 })
  const next = await send([yes(0), yes('b')])
  expect([next.status, await next.ended]).toEqual([200, 'end'])
  expect(next.messages()).toMatchObject([{ id: 1, result: {} }])
  expect(endpoint.answers.map(({ message }) => message.id)).toEqual([0, 'b'])
}

describe('a body that is no list of answers is refused with 400:', () => {
  const good = yes(0)
  it.each<[name: string, body: string, reason: string]>([
    ['nothing', '', 'invalid-json'],
    ['no JSON', 'yes, please', 'invalid-json'],
    ['half of it', JSON.stringify([good]).slice(0, -1), 'invalid-json'],
    ['two in a row', `${JSON.stringify(good)}\n${JSON.stringify(good)}`, 'invalid-json'],
    ['a number', '7', 'invalid-answers'],
    ['a string', '"a"', 'invalid-answers'],
    ['null', 'null', 'invalid-answers'],
    ['true', 'true', 'invalid-answers'],
    ['an empty array', '[]', 'invalid-answers'],
    ['an empty object', '{}', 'invalid-answers'],
    ['an array in an array', JSON.stringify([[good]]), 'invalid-answers'],
    ['a null between answers', JSON.stringify([good, null]), 'invalid-answers'],
    ['a number between answers', JSON.stringify([7, good]), 'invalid-answers'],
    ['a request', JSON.stringify(request(0, 'tools/list')), 'invalid-answers'],
    [
      'a request between answers',
      JSON.stringify([good, request(5, 'tools/list')]),
      'invalid-answers'
    ],
    [
      'a notification',
      JSON.stringify(notification('notifications/initialized')),
      'invalid-answers'
    ],
    ['a cancellation between answers', JSON.stringify([good, cancelled(1)]), 'invalid-answers'],
    [
      'an answer without an id',
      JSON.stringify([{ jsonrpc: '2.0', result: {} }]),
      'invalid-answers'
    ],
    [
      'an answer with the id null',
      JSON.stringify([{ jsonrpc: '2.0', id: null, result: {} }]),
      'invalid-answers'
    ],
    [
      'an answer with an object for an id',
      JSON.stringify([{ jsonrpc: '2.0', id: {}, result: {} }]),
      'invalid-answers'
    ],
    [
      'an answer with neither result nor error',
      JSON.stringify([{ jsonrpc: '2.0', id: 0 }]),
      'invalid-answers'
    ],
    ['an object that looks like a list', JSON.stringify({ 0: good, length: 1 }), 'invalid-answers']
  ])('%s', async (_name, body, reason) => {
    await expectRefused(await send(body), 400, reason)
    await expectNothingTaken()
  })
})

describe('answers that nobody asked for', () => {
  it.each<[name: string, ids: (string | number)[]]>([
    ['unknown ids', [1, 'a', 99]],
    ['ids of the other type', ['0']],
    ['names that every object has', ['__proto__', 'constructor', 'toString']]
  ])('%s alone are refused with 400', async (_name, ids) => {
    await expectRefused(await send(ids.map(id => yes(id))), 400, 'unknown-answers')
    await expectNothingTaken()
  })

  it('are ignored where other answers of the body are expected', async () => {
    const next = await ended(send([yes('x'), yes(0), yes('0'), yes('b'), yes(1)]))
    expect(next.messages()).toMatchObject([{ id: 1 }])
    expect(endpoint.answers.map(({ message }) => message.id)).toEqual([0, 'b'])
  })

  it('to questions of another stream are refused in the same way', async () => {
    const other = await ended(post(served.url, callTool(2, 'any', { only: 'of the other' }), ALICE))
    await expectRefused(await send([yes('of the other')]), 400, 'unknown-answers')
    await ended(send([yes('of the other'), yes(0), yes('b')]))
    expect(endpoint.answers.map(({ message }) => message.id)).toEqual([0, 'b'])
    expect(served.streams.stats()).toMatchObject({ waiting: 1 })
    const next = await ended(send([yes('of the other')], {}, streamUrl(other, served.url)))
    expect(next.messages()).toMatchObject([{ id: 2 }])
  })

  it('to a stream that has asked nothing are refused', async () => {
    const response = await post(served.url, request(3, 'ping'), ALICE)
    expect(response.status).toBe(202)
    const quiet = gate()
    const silent = askingEndpoint(async call => (call.open(), await quiet.opened, call.result()))
    const { url } = await serve(silent, QUICK)
    const call = await post(url, callTool(1, 'any'), ANNOUNCED)
    await expectRefused(await send([yes(0)], {}, streamUrl(call, url)), 404, 'stream-unknown')
    await expectRefused(
      await post(streamUrl(call, url), [yes(0)], ANNOUNCED),
      400,
      'unknown-answers'
    )
    quiet.open()
    await call.ended
  })
})

it('thousands of unknown answers are refused alone, and ignored beside expected ones', async () => {
  const many = Array.from({ length: 2000 }, (_, i) => yes(`n${i}`))
  await expectRefused(await send(many), 400, 'unknown-answers')
  await expectNothingTaken()
  await start()
  const next = await ended(send([...many, yes(0), ...many, yes('b')]))
  expect(next.messages()).toMatchObject([{ id: 1 }])
  expect(endpoint.answers).toHaveLength(2)
})

it('1,000 answers that are all awaited reach the endpoint, each once and in order', async () => {
  const ids = Array.from({ length: 1000 }, (_, i) => i)
  const asking = askingEndpoint(async (call, ask) => {
    await Promise.all(ids.map(id => ask(id)))
    call.result({ all: true })
  })
  const { url } = await serve(asking, QUICK)
  const call = await ended(post(url, callTool(1, 'any'), ANNOUNCED))
  const next = await ended(
    post(
      streamUrl(call, url),
      ids.map(id => yes(id)),
      ANNOUNCED
    )
  )
  expect(next.messages()).toMatchObject([{ id: 1, result: { all: true } }])
  expect(asking.answers.map(({ message }) => message.id)).toEqual(ids)
})

describe('who may not answer', () => {
  it.each<[name: string, headers: Record<string, string | undefined>]>([
    ['another user', headersFor({ auth: 'bob' })],
    ['nobody in particular', { authorization: undefined }],
    ['another session', headersFor({ session: 'another' })]
  ])('%s gets the 404 of a stream that was never there', async (_name, headers) => {
    const foreign = await send([yes(0), yes('b')], headers)
    await expectRefused(foreign, 404, 'stream-unknown')
    const invented = await send(
      [yes(0)],
      headers,
      link.replace(/stream=.*/, `stream=${'x'.repeat(21)}`)
    )
    expect(foreign.text).toBe(invented.text)
    // Not even the body is read first.
    await expectRefused(await send('no JSON', headers), 404, 'stream-unknown')
    await expectNothingTaken()
  })

  it('a page of a foreign origin gets 403, and learns nothing of the stream', async () => {
    const headers = headersFor({ origin: 'https://evil.example' })
    await expectRefused(await send([yes(0), yes('b')], headers), 403, 'foreign-origin')
    await expectRefused(
      await send([yes(0)], headers, `${served.url}?stream=${'x'.repeat(21)}`),
      403,
      'foreign-origin'
    )
    await expectNothingTaken()
  })

  it('a client without the session header may answer: the URL names the stream', async () => {
    const next = await ended(send([yes(0), yes('b')], { 'mcp-session-id': undefined }))
    expect(next.messages()).toMatchObject([{ id: 1 }])
    // The endpoint gets them with the session that they belong to.
    expect(endpoint.answers.map(({ req }) => req.headers['mcp-session-id'])).toEqual(['s', 's'])
  })
})

describe('the stream URL with a changed query', () => {
  it.each([
    ['of no stream', () => `${served.url}?stream=${'x'.repeat(21)}`],
    ['of two streams', () => `${link}&${link.slice(link.indexOf('?') + 1)}`],
    ['of a turn that there is none of', () => `${link}~99`]
  ])('%s is unknown', async (_name, url) => {
    await expectRefused(await send([yes(0), yes('b')], {}, url()), 404, 'stream-unknown')
    await expectNothingTaken()
  })

  it.each(['PUT', 'PATCH'])('takes no %s', async method => {
    const response = await openStream(link, { method, body: [yes(0)], headers: ALICE })
    expect(response.headers.allow).toBe('GET, HEAD, POST, DELETE, OPTIONS')
    await expectRefused(response, 405, 'method-not-allowed')
    await expectNothingTaken()
  })

  it.each(['x', '0', `${'x'.repeat(21)}.1`])(
    'takes no Last-Event-ID of another stream: %s',
    async lastEventId => {
      await expectRefused(
        await send([yes(0), yes('b')], { 'last-event-id': lastEventId }),
        400,
        'invalid-event-id'
      )
      await expectNothingTaken()
    }
  )
})

describe('the Content-Encoding of the answers', () => {
  const body = JSON.stringify([yes(0, 'Zoë 漢 😀'), yes('b')])
  const names = () => endpoint.answers.map(({ message }) => message.result.content.name)

  it.each<[name: string, bytes: Buffer, headers: Record<string, string>]>([
    [
      'UTF-16',
      Buffer.from(`\ufeff${body}`, 'utf16le'),
      { 'content-type': 'application/json; charset=utf-16' }
    ],
    ['another type', Buffer.from(body), { 'content-type': 'text/plain' }],
    ['chunks', Buffer.from(body), { 'transfer-encoding': 'chunked' }]
  ])('may be %s', async (_name, bytes, headers) => {
    const next = await send(bytes, headers)
    expect(next.status).toBe(200)
    await next.ended
    expect(names()).toEqual(['Zoë 漢 😀', 'Ada'])
  })

  it.each<[name: string, headers: Record<string, string>]>([
    ['a charset that nobody knows', { 'content-type': 'application/json; charset=x-unheard-of' }],
    ['a charset that JSON is not in', { 'content-type': 'application/json; charset=iso-8859-1' }],
    ['a content encoding that nobody knows', { 'content-encoding': 'x-rot13' }],
    ['a content encoding that the body is not in', { 'content-encoding': 'gzip' }]
  ])('is refused with 415 where it is %s', async (_name, headers) => {
    await expectRefused(await send(body, headers), 415, 'body-unreadable')
    await expectNothingTaken()
  })

  it('is refused with 415 where the body is compressed: it is not inflated', async () => {
    const bytes = gzipSync(JSON.stringify([yes(0), yes('b', 'x'.repeat(40 * MEBIBYTE))]))
    for (const one of [bytes, gzipSync(body)])
      await expectRefused(await send(one, { 'content-encoding': 'gzip' }), 415, 'body-unreadable')
    await expectNothingTaken()
  })
})

describe('the size of the body with the answers', () => {
  it('of 4 MiB is taken', async () => {
    const answers = [yes(0), yes('b')]
    const rest = 4 * MEBIBYTE - JSON.stringify(answers).length
    const next = await send(`${' '.repeat(rest)}${JSON.stringify(answers)}`)
    expect(next.status).toBe(200)
    await next.ended
    expect(next.messages()).toMatchObject([{ id: 1 }])
  })

  it.each([
    ['announced', {}],
    ['not announced', { 'transfer-encoding': 'chunked' }]
  ])('of more is refused with 413: %s', async (_name, headers) => {
    const response = await send([yes(0), yes('b', 'x'.repeat(4 * MEBIBYTE))], headers)
    await expectRefused(response, 413, 'body-too-large')
    await expectNothingTaken()
  })

  it('is bounded in its number of parts too: 413', async () => {
    const parts = `"parts":[${'{},'.repeat(60_000)}{}]`
    const text = JSON.stringify([yes(0), yes('b')]).replace('"content"', `${parts},"content"`)
    await expectRefused(await send(text), 413, 'body-too-complex')
    await expectNothingTaken()
  })

  it('is counted before the body is complete, and refused with 503 where there is no room', async () => {
    await start({ maxBytes: 4 * MEBIBYTE, maxBodyBytes: MEBIBYTE })
    const { hostname, port, pathname, search } = new URL(link)
    const socket = connect(Number(port), hostname)
    closeLater(() => socket.destroy())
    const lines = Object.entries(ALICE).map(([name, value]) => `${name}: ${value}`)
    const head = [`POST ${pathname}${search} HTTP/1.1`, `host: ${hostname}`, ...lines]
    const before = served.streams.stats().bytes
    const part = 900_000
    socket.write([...head, `content-length: ${part + 1}`, '', ' '.repeat(part)].join('\r\n'))
    while (served.streams.stats().bytes < before + part) await new Promise(setImmediate)
    const answers = `${JSON.stringify([yes(0), yes('b')])}${' '.repeat(200_000)}`
    await expectRefused(await send(answers), 503, 'body-too-large')
    socket.destroy()
    while (served.streams.stats().bytes > before) await new Promise(setImmediate)
    await expectNothingTaken()
  })

  it('that is announced and not sent keeps no memory, and no answer is taken', async () => {
    const { hostname, port, pathname, search } = new URL(link)
    const socket = connect(Number(port), hostname)
    closeLater(() => socket.destroy())
    const lines = Object.entries(ALICE).map(([name, value]) => `${name}: ${value}`)
    const head = [
      `POST ${pathname}${search} HTTP/1.1`,
      `host: ${hostname}`,
      ...lines,
      'content-length: 1000',
      '',
      ''
    ]
    socket.write(`${head.join('\r\n')}${JSON.stringify([yes(0), yes('b')])}`)
    await new Promise(resolve => setTimeout(resolve, 20))
    socket.destroy()
    await new Promise(resolve => setTimeout(resolve, 20))
    await expectNothingTaken()
  })
})

describe('a call that is over', () => {
  const answered = async () => {
    const next = await ended(send([yes(0), yes('b')]))
    return next
  }

  it('and is not kept any more gets 410', async () => {
    await start({ maxStreams: 1 })
    await answered()
    await ended(post(served.url, callTool(2, 'any', { only: 'z' }), ALICE))
    await expectRefused(await send([yes(0), yes('b')]), 410, 'stream-expired')
  })

  it('and was dropped by its client with DELETE is answered with an empty 204', async () => {
    await openStream(link, { method: 'DELETE', headers: ALICE })
    const late = await send([yes(0), yes('b')])
    expect([late.status, late.text]).toEqual([204, ''])
    expect(endpoint.answers).toHaveLength(0)
  })

  it('of which events are gone is refused with 410', async () => {
    const size = 2000
    const noisy = askingEndpoint(
      async (call, ask) => {
        await ask(0)
        for (let i = 0; i < 20; i++) {
          call.emit(notification('notifications/message', { data: 'x'.repeat(size) }))
          await new Promise(resolve => setImmediate(resolve))
        }
        await ask(1)
      },
      { session: 's' }
    )
    const small = await serve(noisy, { ...QUICK, maxStreamBytes: 5 * size })
    const call = await ended(post(small.url, callTool(1, 'any'), ALICE))
    const url = streamUrl(call, small.url)
    await ended(send([yes(0)], {}, url))
    await expectRefused(await send([yes(0)], {}, url), 410, 'events-evicted')
    expect(noisy.answers).toHaveLength(1)
  })
})

it('a refused POST says so in the counts only where it is about somebody or something else', async () => {
  const { refusals } = served.streams.stats()
  await send('no JSON')
  await send([yes('unknown')])
  expect(served.streams.stats().refusals).toBe(refusals)
  await send([yes(0)], headersFor({ auth: 'bob' }))
  await send([yes(0)], headersFor({ origin: 'https://evil.example' }))
  expect(served.streams.stats().refusals).toBe(refusals + 2)
})

it('an error may be an answer, and so may a result that is null', async () => {
  await ended(
    send([{ jsonrpc: '2.0', id: 0, error: { code: 1, message: 'no' } }, result('b', null)])
  )
  expect(endpoint.answers.map(({ message }): Json => [message.error, message.result])).toEqual([
    [{ code: 1, message: 'no' }, undefined],
    [undefined, null]
  ])
})
