// `readThrough`: what the endpoint's own `resources/read` returns, as bytes; from hand-written
// endpoints and from the official SDKs.

import { describe, expect, it } from '@jest/globals'
import { readThrough } from '../../../lib/resources/index.js'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { answerJson, errorOf, serveResources, testBytes, whole } from './setup.js'

const BYTES = testBytes(100_000)

/** An endpoint that answers `resources/read` with these contents, and all else with nothing. */
const reading = (contents: unknown) => (call: RawCall) =>
  answerJson(call, call.message.method === 'resources/read' ? { contents } : {})

describe('readThrough', () => {
  it.each([
    [
      'a blob',
      [{ uri: 'a:1.png', mimeType: 'image/png', blob: BYTES.toString('base64') }],
      BYTES,
      'image/png'
    ],
    [
      'a blob without a type',
      [{ uri: 'a:1.png', blob: BYTES.toString('base64') }],
      BYTES,
      'image/png'
    ],
    [
      'a text',
      [{ uri: 'a:1.png', mimeType: 'text/markdown', text: '# für' }],
      Buffer.from('# für'),
      'text/markdown'
    ],
    [
      'a text without a type',
      [{ uri: 'a:1.png', text: '# für' }],
      Buffer.from('# für'),
      'text/plain'
    ],
    ['an empty text', [{ uri: 'a:1.png', text: '' }], Buffer.alloc(0), 'text/plain']
  ])('sends %s as bytes', async (_what, contents, bytes, type) => {
    const { ask, endpoint } = await serveResources(readThrough(), {
      script: reading(contents),
      auth: 'alice'
    })
    const response = await whole(ask('a:1.png'))
    expect([
      response.status,
      response.headers['content-type'],
      response.bytes.equals(bytes)
    ]).toEqual([200, type, true])
    expect(response.headers['content-length']).toBe(String(bytes.length))
    const [read, ...others] = endpoint.requests.filter(
      ({ message }) => message.method === 'resources/read'
    )
    expect([read!.message.params, others]).toEqual([{ uri: 'a:1.png' }, []])
    expect(read!.req.headers).toMatchObject({
      authorization: 'Bearer alice',
      'mcp-session-id': 's1'
    })
  })

  it('reads base64 that is broken into lines, and none that is something else', async () => {
    const lines = BYTES.toString('base64').replace(/.{76}/g, '$&\r\n')
    const { ask: askLines } = await serveResources(readThrough(), {
      script: reading([{ uri: 'a:1', blob: lines }])
    })
    expect((await whole(askLines('a:1'))).bytes.equals(BYTES)).toBe(true)
    for (const blob of ['QUJD#QUJD', 'QUJ#', 'QUJDQ', 'data:;base64,QUJD']) {
      const { ask, errors } = await serveResources(readThrough(), {
        script: reading([{ uri: 'a:1', blob }])
      })
      expect(await errorOf(ask('a:1'))).toMatchObject({ code: -32603 })
      expect(errors).toMatchObject([{ cause: { message: expect.stringContaining('not base64') } }])
    }
  })

  it('reads an answer that is an event stream', async () => {
    const { ask } = await serveResources(readThrough(), {
      script: ({ message, emit, result }) => {
        emit({ jsonrpc: '2.0', method: 'notifications/message', params: {} })
        result(
          message.method === 'resources/read'
            ? { contents: [{ uri: 'a:1', blob: BYTES.toString('base64') }] }
            : {}
        )
      }
    })
    expect((await whole(ask('a:1'))).bytes.equals(BYTES)).toBe(true)
  })

  it('has a validator, so that a broken transfer goes on', async () => {
    const { ask } = await serveResources(readThrough(), {
      script: reading([{ uri: 'a:1', blob: BYTES.toString('base64') }])
    })
    const { headers } = await whole(ask('a:1'))
    const rest = await whole(
      ask('a:1', { range: 'bytes=99000-', 'if-range': String(headers.etag) })
    )
    expect([rest.status, rest.bytes.equals(BYTES.subarray(99_000))]).toEqual([206, true])
  })

  it.each([
    [
      'several contents',
      [
        { uri: 'a:1', text: 'x' },
        { uri: 'a:2', text: 'y' }
      ],
      -32003
    ],
    ['no contents', [], -32002]
  ])('%s are no one run of bytes', async (_what, contents, code) => {
    const { ask } = await serveResources(readThrough(), { script: reading(contents) })
    expect(await errorOf(ask('a:1'))).toMatchObject({ code, data: { uri: 'a:1' } })
  })

  it.each([
    [-32002, { code: -32002, message: 'Resource not found', data: { uri: 'a:1' } }],
    [-32602, { code: -32002, message: 'Resource not found', data: { uri: 'a:1' } }],
    [-32042, { code: -32042, message: 'of the endpoint', data: { url: 'x' } }]
  ])('tells of the endpoint’s error %d', async (code, expected) => {
    const { ask, errors } = await serveResources(readThrough(), {
      script: call => {
        if (call.message.method !== 'resources/read') return answerJson(call)
        const error = { code, message: 'of the endpoint', data: { url: 'x' } }
        call.res.setHeader('Content-Type', 'application/json')
        call.res.end(JSON.stringify({ jsonrpc: '2.0', id: call.message.id, error }))
      }
    })
    expect(await errorOf(ask('a:1'))).toEqual(expected)
    expect(errors).toEqual([])
  })

  it.each<[what: string, script: (call: RawCall) => unknown]>([
    ['with a status', ({ res }) => res.writeHead(500).end()],
    ['without contents', call => answerJson(call, {})],
    ['with contents that are none', call => answerJson(call, { contents: [{ uri: 'a:1' }] })],
    ['with no answer', ({ res }) => res.destroy()]
  ])('an answer %s is an internal error', async (_what, script) => {
    const { ask, errors } = await serveResources(readThrough(), {
      script: call => (call.message.method === 'resources/read' ? script(call) : answerJson(call))
    })
    expect(await errorOf(ask('a:1'))).toMatchObject({ code: -32603 })
    expect(errors).toMatchObject([{ code: 'resource-failed' }])
  })
})

it('has no options, and says so', () => {
  expect(() => (readThrough as (options: object) => unknown)({ maxBytes: 1 })).toThrow(
    new TypeError('readThrough: it takes no options')
  )
})
