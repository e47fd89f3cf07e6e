// What we can do is added to the capabilities in the endpoint's answer to `initialize`, however that
// is written in JSON; every other answer passes byte for byte.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { until } from '../../helpers/happenings.js'
import { listen } from '../../helpers/listen.js'
import { initialize, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { createStreams, type Middleware } from '../mounting/frameworks.js'

const ADDED = { experimental: { streams: {} } }
const RESULT = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'ü€😀' }
}
const ANSWER = { jsonrpc: '2.0', id: 'initialize', result: RESULT }
const REWRITTEN = { ...ANSWER, result: { ...RESULT, capabilities: { tools: {}, ...ADDED } } }

type Write = (res: ServerResponse) => unknown

const begin = async (write: Write, streams: Middleware[]): Promise<OpenStream> => {
  const { url } = await listen(express().use(...(streams as []), (_req, res) => void write(res)))
  return post(url, initialize('2025-11-25', ADDED))
}

/** The same response without our doing, and with it. */
async function both(write: Write): Promise<[bare: OpenStream, ours: OpenStream]> {
  const [bare, ours] = await Promise.all([begin(write, []), begin(write, [createStreams()])])
  await Promise.all([bare.ended, ours.ended])
  return [bare, ours]
}

const headOf = ({ rawHeaders }: OpenStream): string[] => {
  const volatile = /^(?:date|content-length|etag)$/i
  return rawHeaders.filter((text, i) => !volatile.test(i % 2 === 0 ? text : rawHeaders[i - 1]!))
}

describe('a JSON answer to initialize', () => {
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
    const write: Write = res => {
      res.writeHead(200, type)
      for (let i = 0; i < 20; i++) res.write(' '.repeat(100_000))
    }
    const response = await begin(write, [createStreams()])
    await until(() => response.bytes.length === 2_000_000)
    response.destroy()
  })
})
