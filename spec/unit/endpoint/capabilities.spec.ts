// Capabilities are added to one result; whatever else a response is made of, and however it is
// written, passes byte for byte.

import { afterEach, describe, expect, it } from '@jest/globals'
import express from 'express'
import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { withCapabilities } from '../../../lib/endpoint/capabilities.js'
import { until } from '../../helpers/happenings.js'
import { closeAll, listen } from '../../helpers/listen.js'
import { post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'

afterEach(closeAll)

const ADDED = { experimental: { streams: {} }, other: { deep: { er: 1 } } }
const RESULT = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'ü€😀' }
}
const ANSWER = { jsonrpc: '2.0', id: 1, result: RESULT }
const REWRITTEN = { ...ANSWER, result: { ...RESULT, capabilities: { tools: {}, ...ADDED } } }

type Write = (res: ServerResponse) => unknown

/** The same response without our doing, and with it. */
async function both(write: Write, more = ADDED): Promise<[bare: OpenStream, ours: OpenStream]> {
  const respond = async (isOurs: boolean): Promise<OpenStream> => {
    const app = express().use((_req, res) => {
      if (isOurs) withCapabilities(res, more)
      return write(res)
    })
    const response = await post((await listen(app)).url, {})
    await response.ended
    return response
  }
  return [await respond(false), await respond(true)]
}

const headOf = ({ rawHeaders }: OpenStream): string[] => {
  const volatile = /^(?:date|content-length|etag)$/i
  return rawHeaders.filter((text, i) => !volatile.test(i % 2 === 0 ? text : rawHeaders[i - 1]!))
}

describe('a JSON answer', () => {
  const body = JSON.stringify(ANSWER)
  const length = Buffer.byteLength(body)
  const type = { 'Content-Type': 'application/json' }

  it.each<[string, Write]>([
    ['by res.json', res => (res as express.Response).json(ANSWER)],
    ['in one piece', res => res.writeHead(200, { ...type, 'Content-Length': length }).end(body)],
    [
      'with a reason',
      res => res.writeHead(200, 'Fine', { ...type, 'Content-Length': length }).end(body)
    ],
    [
      'with a flat list of headers',
      res => res.writeHead(200, ['X-A', 'b', ...Object.entries(type)[0]!]).end(body)
    ],
    [
      'with headers set before',
      res => res.setHeader('content-type', 'application/json; charset=utf-8').end(body)
    ],
    [
      'byte by byte',
      res => {
        res.writeHead(200, type)
        res.flushHeaders()
        for (const byte of Buffer.from(body)) res.write(Buffer.of(byte))
        res.end()
      }
    ],
    [
      'in strings of another encoding',
      res => {
        res.writeHead(200, type)
        res.write(Buffer.from(body).subarray(0, 20).toString('base64'), 'base64')
        res.end(Buffer.from(body).subarray(20).toString('hex'), 'hex')
      }
    ]
  ])('%s has them, under the same head, with the right length', async (_name, write) => {
    const [bare, ours] = await both(write)
    expect(JSON.parse(bare.text)).toEqual(ANSWER)
    expect(JSON.parse(ours.text)).toEqual(REWRITTEN)
    expect(headOf(ours).filter(text => !/chunked|transfer-encoding/i.test(text))).toEqual(
      headOf(bare).filter(text => !/chunked|transfer-encoding/i.test(text))
    )
    const { 'content-length': told = String(ours.bytes.length) } = ours.headers
    expect(Number(told)).toBe(ours.bytes.length)
    expect(ours.response.statusMessage).toBe(bare.response.statusMessage)
  })

  it('calls back', async () => {
    const calls: string[] = []
    const [, ours] = await both(res => {
      res.setHeader('Content-Type', 'application/json')
      res.write(body.slice(0, 9), () => calls.push('write'))
      res.end(body.slice(9), () => calls.push('end'))
    })
    expect(JSON.parse(ours.text)).toEqual(REWRITTEN)
    expect(calls).toEqual(['write', 'end', 'write', 'end'])
  })

  it('of a batch has them', async () => {
    const [, ours] = await both(res =>
      (res as express.Response).json([{ jsonrpc: '2.0', id: 2, result: {} }, ANSWER])
    )
    expect(JSON.parse(ours.text)[1]).toEqual(REWRITTEN)
  })

  it.each<[string, Write]>([
    [
      'an error',
      res =>
        res.writeHead(200, type).end('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}')
    ],
    [
      'a result without capabilities',
      res => res.writeHead(200, type).end('{ "jsonrpc":"2.0","id":1,"result":{"a":1.0}}')
    ],
    ['no JSON', res => res.writeHead(200, type).end('{"jsonrpc')],
    ['nothing', res => res.writeHead(200, type).end()],
    ['another status', res => res.writeHead(404, type).end(body)],
    ['another type', res => res.writeHead(200, { 'Content-Type': 'text/plain' }).end(body)],
    ['no type', res => res.end(body)],
    [
      'an encoding',
      res => res.writeHead(200, { ...type, 'Content-Encoding': 'gzip' }).end(gzipSync(body))
    ],
    [
      'too much',
      res =>
        res.writeHead(200, type).end(JSON.stringify({ ...ANSWER, padding: 'x'.repeat(2 ** 20) }))
    ],
    [
      'too much, in pieces',
      res => {
        res.writeHead(200, { ...type, 'X-Late': 'yes' })
        for (const piece of JSON.stringify({ ...ANSWER, padding: 'x'.repeat(2 ** 21) }).match(
          /.{1,200000}/gs
        )!)
          res.write(piece)
        res.end()
      }
    ]
  ])('that is %s passes byte for byte', async (_name, write) => {
    const [bare, ours] = await both(write)
    expect(ours.bytes.equals(bare.bytes)).toBe(true)
    expect(headOf(ours).sort()).toEqual(headOf(bare).sort())
  })

  it('that is too much is not held until it ends', async () => {
    const app = express().use((_req, res) => {
      withCapabilities(res, ADDED)
      res.writeHead(200, type)
      for (let i = 0; i < 20; i++) res.write(' '.repeat(100_000))
    })
    const response = await post((await listen(app)).url, {})
    await until(() => response.bytes.length === 2_000_000)
  })

  it('is destroyed by its endpoint as ever', async () => {
    const app = express().use((_req, res) => {
      withCapabilities(res, ADDED)
      res.writeHead(200, type)
      res.write('{')
      res.destroy()
    })
    const { url } = await listen(app)
    await expect(post(url, {})).rejects.toThrow('no complete response head')
  })

  it('gets the capabilities of two rooms', async () => {
    const app = express().use((_req, res) => {
      withCapabilities(res, { experimental: { streams: {} } })
      withCapabilities(res, { experimental: { more: {} } })
      res.json(ANSWER)
    })
    const response = await post((await listen(app)).url, {})
    expect((await response.json()).result.capabilities).toEqual({
      tools: {},
      experimental: { streams: {}, more: {} }
    })
    expect(response.headers['content-length']).toBe(String(response.bytes.length))
  })
})

describe.each([
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r']
])('an event stream with %s', (_name, eol) => {
  const before = `: hello${eol}${eol}retry: 5${eol}${eol}event: prime${eol}data: {}${eol}${eol}data: ü${eol}${eol}`
  const event = `event: message${eol}id: 9${eol}data: ${JSON.stringify(ANSWER)}${eol}${eol}`
  const after = `data: ${JSON.stringify(ANSWER)}${eol}${eol}: and so on${eol}`
  const all = Buffer.from(before + event + after)

  it.each(['in one write', 'byte by byte', 'in the end'])(
    'has them in its one result, written %s',
    async how => {
      const [bare, ours] = await both(res => {
        res.writeHead(200, { 'Content-Type': 'text/event-stream' })
        if (how === 'in one write') res.write(all)
        else if (how === 'byte by byte') for (const byte of all) res.write(Buffer.of(byte))
        res.end(...((how === 'in the end' ? [all] : []) as []))
      })
      expect(bare.bytes.equals(all)).toBe(true)
      const rewritten = `event: message\nid: 9\ndata: ${JSON.stringify(REWRITTEN)}\n\n`
      expect(ours.text).toBe(before + rewritten + after)
      expect(ours.rawHeaders.filter(text => !/GMT/.test(text))).toEqual(
        bare.rawHeaders.filter(text => !/GMT/.test(text))
      )
    }
  )

  it('passes each event on as soon as it is whole', async () => {
    let write!: (text: string) => void
    const app = express().use((_req, res) => {
      withCapabilities(res, ADDED)
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      res.flushHeaders()
      write = text => res.write(text)
    })
    const response = await post((await listen(app)).url, {})
    write(`data: 1${eol}${eol}data:`)
    await until(() => response.text === `data: 1${eol}${eol}`)
    write(` 2${eol}${eol}`)
    await until(() => response.text === `data: 1${eol}${eol}data: 2${eol}${eol}`)
  })
})
