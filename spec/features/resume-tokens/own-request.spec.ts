// The endpoint works on a call with tokens in its client's own request: everything in front runs
// once, and what the endpoint does to its response is for whoever asks for the call.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { once } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import type { Handler } from '../../helpers/listen.js'
import { callTool, result } from '../../helpers/mcp.js'
import { closed, counts, end, go, on, post } from '../../helpers/talk/client.js'
import { send, take, type Word } from '../../helpers/talk/client.js'
import { destroy, hold, json, leave, note } from '../../helpers/talk/endpoint.js'
import { noteOf, refuse, resultIs, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, talk } from '../../helpers/talk/index.js'
import { given, PATIENT, plain, postWithToken, report, TEXT, tokens } from './setup.js'

const SLOW = { ...tokens(), endpoint: [hold, json(TEXT)] }
const AT_ONCE = tokens({ after: 5000 })
const collect = (token: unknown, more: object = {}): Word =>
  report({ id: 2, token, wait: PATIENT, ...more })
const DONE = ['json', result(2, TEXT)]
/** A call for a token, as text. */
const textOf = (args: object, meta: object = {}): string => {
  const call = callTool(1, 'any', args)
  return JSON.stringify({
    ...call,
    params: { ...call.params, _meta: { resumeToken: null, ...meta } }
  })
}

describe('the request of a call', () => {
  let passed = 0
  const hasPassed =
    (times: number): Word =>
    () =>
      expect(passed).toBe(times)
  conversation('passes what stands in front once, and so does each that asks for its result', {
    ...SLOW,
    inFront: [(_req, _res, next) => next(void passed++)],
    client: [report, hasPassed(1), go, collect(1), hasPassed(2)],
    sees: [...given(1), ...DONE]
  })

  conversation.each<[string, RequestHandler[]]>([
    ['parsed in front', [express.json()]],
    ['read by the endpoint', []]
  ])(
    'has the body that its endpoint is to see, %s, in whatever charset it came',
    (_how, inFront) => ({
      ...{ ...SLOW, inFront },
      client: [
        send(() => Buffer.from(textOf({ name: 'Zoë' }), 'utf16le'), {
          headers: { 'Content-Type': 'application/json; charset=utf-16le' }
        }),
        end
      ],
      sees: given(1),
      then: ({ call: { message, req } }) => {
        expect(message.params).toEqual({ name: 'any', arguments: { name: 'Zoë' } })
        expect(req.headers['content-type']).toBe('application/json')
      }
    })
  )

  it.each([
    ['text', express.text({ type: () => true })],
    ['bytes', express.raw({ type: () => true })]
  ])('has the body that a parser in front has left as %s', async (_as, parser) => {
    const seen = gate<unknown>()
    const endpoint: Handler = req => seen.open((req as { body?: unknown }).body)
    await play({
      ...tokens(),
      app: streams => express().use('/mcp', parser, streams, endpoint as RequestHandler),
      client: [report],
      sees: given(1)
    })
    expect(JSON.parse(String(await seen.opened))).toMatchObject({ params: { name: 'any' } })
  })

  conversation('has a valid head, without anything about tokens', {
    ...{ ...SLOW, accept: 'application/json' },
    client: [plain({ prefer: 'respond-async, wait=0, rel=stream; x=1' })],
    sees: given(1),
    then: ({ response, call: { req } }) => {
      expect(response.headers['preference-applied']).toBe('respond-async')
      expect(req.headers).toMatchObject({
        ...{ accept: 'application/json, text/event-stream', prefer: 'rel=stream; x=1' }
      })
      const raw = req.rawHeaders.join('\n').toLowerCase()
      expect(raw).not.toContain('respond-async')
      expect(raw.match(/^accept$/gm)).toHaveLength(1)
    }
  })

  const args = { text: 'x'.repeat(5000) }
  const read = gate()
  conversation('can have its body read when its client has long been answered', {
    ...tokens(),
    app: (streams, endpoint) =>
      express().use('/mcp', streams, (async (req, res) => {
        await read.opened
        return endpoint(req, res)
      }) as RequestHandler),
    endpoint: [json(TEXT)],
    client: [report({ wait: 0, args }), () => read.open(), collect(1, { args })],
    sees: [...given(1), ...DONE],
    then: ({ call: { message } }) => expect(message.params.arguments).toEqual(args)
  })

  const long = { text: 'x'.repeat(300_000) }
  conversation('is made after a body that arrives slowly', {
    ...tokens(),
    endpoint: [hold, note(1), resultIs(TEXT)],
    client: [report({ args: long }), go, collect(1, { args: long })],
    sees: [...given(1), primer, 1, result(2, TEXT), 'end'],
    hears: ['tools/call'],
    then: ({ call: { message } }) =>
      expect(message.params).toEqual({ name: 'any', arguments: long })
  })
})

describe('the response to a call', () => {
  const gzipped =
    (status: number): Line =>
    ({ res, message: { id } }) => {
      res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' })
      res.end(gzipSync(JSON.stringify(result(id, TEXT))))
    }
  conversation('may be compressed behind us', {
    ...AT_ONCE,
    endpoint: [[gzipped(200)], [gzipped(400)]],
    client: [report, report({ id: 2 })],
    sees: ['json', result(1, TEXT), '400'],
    then: async ({ wires: [first, refusal] }) => {
      expect(first!.response.headers['content-encoding']).toBeUndefined()
      expect(await refusal!.response.json()).toMatchObject({ id: 2 })
    }
  })

  conversation.each<[string, Line[], Word[], unknown[]]>([
    ['its response', [destroy], [report], ['json', 'error endpoint-failed']],
    [
      'its socket',
      [({ req }) => req.socket.destroy()],
      [report],
      ['json', 'error endpoint-failed']
    ],
    [
      'its response, when its client has the token',
      [hold, destroy],
      [report({ wait: 1 }), go, collect(1)],
      [...given(1), 'json', 'error endpoint-failed of 2']
    ]
  ])('may be missing: the endpoint destroys %s', (_what, endpoint, client, sees) => ({
    ...{ ...AT_ONCE, endpoint, client, sees }
  }))

  const over: string[] = []
  conversation('emits `finish` and `close` also where the endpoint answers at once', {
    ...{ ...AT_ONCE, inFront: [express.json()] },
    endpoint: [
      ({ res }) =>
        res.on('finish', () => over.push('finish')).on('close', () => over.push('close')),
      json(TEXT)
    ],
    client: [report],
    sees: ['json', result(1, TEXT)],
    then: async () => {
      await until(() => over.length === 2)
      expect(over).toEqual(['finish', 'close'])
    }
  })

  conversation('is the error page of Express where its handler throws', {
    ...AT_ONCE,
    app: streams =>
      express()
        .set('env', 'test')
        .use('/mcp', streams)
        .post('/mcp', () => {
          throw Object.assign(new Error('no'), { status: 418, expose: true })
        }),
    client: [report],
    sees: ['418']
  })

  const answered: Line = call => call.emit(result(call.message.id, TEXT))
  conversation('can be written to after the result, and closes soon after that', {
    ...AT_ONCE,
    endpoint: [
      [answered, hold, note(1), leave],
      [answered, hold]
    ],
    client: [
      ...[report, ({ call }: Parameters<Word>[0]) => expect(call.isClosed).toBe(false), go, closed],
      // It does not end its response, and nobody waits for that.
      ...[report({ id: 2 }), closed]
    ],
    sees: ['json', result(1, TEXT), 'json', result(2, TEXT)]
  })

  conversation('that refuses the session ends it, also long after the token', {
    ...{ ...tokens(), session: 'one' },
    endpoint: [
      [note(1), hold],
      [hold, refuse(404)]
    ],
    client: [
      ...[post({ id: 9 }), take(2), report, go, on(0, end), counts({ live: 0 })],
      report({ id: 2, token: 1 })
    ],
    sees: [primer, 1, 'error session-ended of 9', 'end', ...given(1), '404']
  })

  it('does not end with its client’s connection, which serves other requests', async () => {
    const made = await talk({ ...tokens(), endpoint: [hold, note(1), resultIs(TEXT)] })
    const socket = connect(Number(new URL(made.url).port), '127.0.0.1')
    const ask = async (body: string): Promise<string> => {
      socket.write(
        `POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n` +
          `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
      )
      return String((await once(socket, 'data'))[0])
    }
    const token = /"nextResumeToken":"([^"]+)"/.exec(await ask(textOf({})))?.[1]
    await ask(textOf({ other: true }, { 'express-mcp-streams/wait': 0 }))
    socket.destroy()
    const [first] = made.runs
    await made.runs.nth(2)
    const { isClosed, res } = first!.call
    expect([isClosed, res.writableEnded, res.destroyed]).toEqual([false, false, false])
    await made.plays(go({ run: 0 }), collect(token))
    expect(made.sees().at(-1)).toEqual(result(2, TEXT))
    await first!.call.closed
  })
})

describe('a call whose client reads nothing', () => {
  it('is slowed down, and goes on when it reads', async () => {
    const { call, response, run } = await play({
      ...{ ...tokens({}, { maxStreamBytes: 100_000 }), version: '2026-07-28' },
      endpoint: [note(0), hold, resultIs(TEXT)],
      client: [postWithToken({ wait: PATIENT })]
    })
    response.pause()
    while (call.emit(noteOf(1, 20_000))) await new Promise(setImmediate)
    expect(call.res.writableNeedDrain).toBe(true)
    const drained = once(call.res, 'drain')
    response.resume()
    await drained
    await run.go()
    await response.ended
    expect(response.messages().at(-1)).toEqual(result(1, TEXT))
  })
})
