// What we can do is added to the capabilities in the endpoint's answer to `initialize`, however that
// is written in JSON; every other answer passes byte for byte.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { gzipSync } from 'node:zlib'
import { until } from '../../helpers/happenings.js'
import { listen } from '../../helpers/listen.js'
import { initialize, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { createStreams, type Middleware } from '../mounting/frameworks.js'
import { ends, headed, perform, says, type Step } from './script.js'

const ADDED = { experimental: { streams: {} } }
const RESULT = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'ü€😀' }
}
const ANSWER = { jsonrpc: '2.0', id: 'initialize', result: RESULT }
const REWRITTEN = { ...ANSWER, result: { ...RESULT, capabilities: { tools: {}, ...ADDED } } }

async function begin(steps: readonly Step[], streams: Middleware[]): Promise<OpenStream> {
  const endpoint: Middleware = (req, res) => perform(steps, { req, res })
  const { url } = await listen(express().use(...(streams as []), endpoint as RequestHandler))
  return post(url, initialize('2025-11-25', ADDED))
}

/** The same response without our doing, and with it. */
async function both(...steps: Step[]): Promise<[bare: OpenStream, ours: OpenStream]> {
  const [bare, ours] = await Promise.all([begin(steps, []), begin(steps, [createStreams()])])
  await Promise.all([bare.ended, ours.ended])
  return [bare, ours]
}

const headOf = ({ rawHeaders }: OpenStream): string[] => {
  const volatile = /^(?:date|content-length|etag)$/i
  return rawHeaders.filter((text, i) => !volatile.test(i % 2 === 0 ? text : rawHeaders[i - 1]!))
}

describe('a JSON answer to initialize', () => {
  const body = JSON.stringify(ANSWER)
  const bytes = Buffer.from(body)
  const TYPE = { 'Content-Type': 'application/json' }
  const LENGTH = { 'Content-Length': bytes.length }
  const like =
    (answer: unknown): Step =>
    ({ res }) =>
      (res as express.Response).json(answer)

  it.each<[string, ...Step[]]>([
    ['by res.json', like(ANSWER)],
    ['in one piece', headed({ ...TYPE, ...LENGTH }), ends(body)],
    ['with a reason', headed({ ...TYPE, ...LENGTH }, 'Fine'), ends(body)],
    ['with a flat list of headers', headed(['X-A', 'b', ...Object.entries(TYPE)[0]!]), ends(body)],
    [
      'with headers set before',
      ({ res }) => res.setHeader('content-type', 'application/json; charset=utf-8'),
      ends(body)
    ],
    [
      'byte by byte',
      headed(TYPE),
      ({ res }) => res.flushHeaders(),
      ...Array.from(bytes, byte => says(Buffer.of(byte))),
      ends()
    ],
    [
      'in strings of another encoding',
      headed(TYPE),
      ({ res }) => res.write(bytes.subarray(0, 20).toString('base64'), 'base64'),
      ({ res }) => res.end(bytes.subarray(20).toString('hex'), 'hex')
    ]
  ])('%s has them, under the same head, with the right length', async (_name, ...steps) => {
    const [bare, ours] = await both(...steps)
    expect(JSON.parse(bare.text)).toEqual(ANSWER)
    expect(JSON.parse(ours.text)).toEqual(REWRITTEN)
    const isOfBody = (text: string): boolean => /chunked|transfer-encoding/i.test(text)
    expect(headOf(ours).filter(text => !isOfBody(text))).toEqual(
      headOf(bare).filter(text => !isOfBody(text))
    )
    const { 'content-length': told = String(ours.bytes.length) } = ours.headers
    expect(Number(told)).toBe(ours.bytes.length)
    expect(ours.response.statusMessage).toBe(bare.response.statusMessage)
  })

  it('calls back', async () => {
    const calls: string[] = []
    const [, ours] = await both(
      headed(TYPE),
      ({ res }) => res.write(body.slice(0, 9), () => calls.push('write')),
      ({ res }) => res.end(body.slice(9), () => calls.push('end'))
    )
    expect(JSON.parse(ours.text)).toEqual(REWRITTEN)
    expect(calls).toEqual(['write', 'end', 'write', 'end'])
  })

  it('of a batch has them', async () => {
    const [, ours] = await both(like([{ jsonrpc: '2.0', id: 2, result: {} }, ANSWER]))
    expect(JSON.parse(ours.text)[1]).toEqual(REWRITTEN)
  })

  const long = (length: number) => JSON.stringify({ ...ANSWER, padding: 'x'.repeat(length) })
  it.each<[string, ...Step[]]>([
    ['an error', headed(TYPE), ends('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}')],
    [
      'a result without capabilities',
      headed(TYPE),
      ends('{ "jsonrpc":"2.0","id":1,"result":{"a":1.0}}')
    ],
    ['no JSON', headed(TYPE), ends('{"jsonrpc')],
    ['nothing', headed(TYPE), ends()],
    ['another status', ({ res }) => res.writeHead(404, TYPE), ends(body)],
    ['another type', headed({ 'Content-Type': 'text/plain' }), ends(body)],
    ['no type', ends(body)],
    ['an encoding', headed({ ...TYPE, 'Content-Encoding': 'gzip' }), ends(gzipSync(body))],
    ['too much', headed(TYPE), ends(long(2 ** 20))],
    [
      'too much, in pieces',
      headed({ ...TYPE, 'X-Late': 'yes' }),
      ...long(2 ** 21)
        .match(/.{1,200000}/gs)!
        .map(piece => says(piece)),
      ends()
    ]
  ])('that is %s passes byte for byte', async (_name, ...steps) => {
    const [bare, ours] = await both(...steps)
    expect(ours.bytes.equals(bare.bytes)).toBe(true)
    expect(headOf(ours).sort()).toEqual(headOf(bare).sort())
  })

  it('that is too much is not held until it ends', async () => {
    const pieces = Array<Step>(20).fill(says(' '.repeat(100_000)))
    const response = await begin([headed(TYPE), ...pieces], [createStreams()])
    await until(() => response.bytes.length === 2_000_000)
    response.destroy()
  })
})
