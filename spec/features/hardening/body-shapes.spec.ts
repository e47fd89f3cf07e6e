// Bodies where none belong, and bodies that are not what their heads say: what comes back is the
// same with us in front as without, byte for byte and in the same order.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { mcpStreams } from '../../../lib/index.js'
import { closeLater, listen } from '../../helpers/listen.js'

const JSON_TEXT = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
const HEAD = [
  'Host: localhost',
  'Accept: application/json, text/event-stream',
  'Content-Type: application/json',
  'MCP-Protocol-Version: 2025-11-25'
].join('\r\n')
const CHUNKED = 'Transfer-Encoding: chunked'
const CHUNK = `${JSON_TEXT.length.toString(16)}\r\n${JSON_TEXT}\r\n`
const LENGTH = `Content-Length: ${JSON_TEXT.length}`

/** A request in one piece, the last of its connection unless it says otherwise. */
const request = (method: string, header: string, body = '', connection = 'close') =>
  `${method} /mcp HTTP/1.1\r\n${HEAD}\r\nConnection: ${connection}\r\n${header}\r\n\r\n${body}`

/** Says what it has got, once it has all of it. */
async function endpoint(req: IncomingMessage, res: ServerResponse): Promise<void> {
  let body = ''
  try {
    for await (const chunk of req) body += String(chunk)
  } catch {
    return
  }
  res.writeHead(200, { 'Content-Type': 'application/json' })
  res.end(JSON.stringify({ method: req.method, body }))
}

/** All that comes back to pieces that are sent one after the other; `undefined` ends the sending. */
async function exchange(port: number, pieces: readonly (string | undefined)[]): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
  closeLater(() => socket.destroy())
  let text = ''
  socket.on('data', chunk => (text += String(chunk)))
  socket.on('error', () => undefined)
  const closed = once(socket, 'close')
  socket.on('end', () => socket.end())
  await once(socket, 'connect')
  for (const piece of pieces) {
    if (piece === undefined) socket.end()
    else await new Promise(resolve => socket.write(piece, resolve))
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  }
  await closed
  return text.replaceAll(/Date: .*\r\n/g, '')
}

describe('the same comes back with us as without', () => {
  it.each<[string, ...(string | undefined)[]]>([
    ['a GET with a body', request('GET', LENGTH, JSON_TEXT)],
    ['a GET with a body in chunks', request('GET', CHUNKED, `${CHUNK}0\r\n\r\n`)],
    ['a HEAD with a body', request('HEAD', LENGTH, JSON_TEXT)],
    ['an OPTIONS with a body', request('OPTIONS', LENGTH, JSON_TEXT)],
    ['a DELETE with a body', request('DELETE', LENGTH, JSON_TEXT)],
    ['a POST without a body', request('POST', 'Content-Length: 0')],
    ['a POST without a length', request('POST', 'X: y')],
    ['chunks', request('POST', CHUNKED, `${CHUNK}0\r\n\r\n`)],
    ['chunks, one by one', request('POST', CHUNKED), CHUNK, '0\r\n\r\n'],
    ['chunks with a trailer', request('POST', CHUNKED, `${CHUNK}0\r\nx: y\r\n\r\n`)],
    ['a bad chunk', request('POST', CHUNKED, 'zz\r\n')],
    ['a bad chunk behind a good one', request('POST', CHUNKED, CHUNK), 'zz\r\n'],
    ['chunks without an end', request('POST', CHUNKED, CHUNK), CHUNK, CHUNK, undefined],
    ['a length that is too short', request('POST', 'Content-Length: 10', JSON_TEXT)],
    ['a length that is too long', request('POST', 'Content-Length: 100', JSON_TEXT), undefined],
    ['two lengths', request('POST', 'Content-Length: 10\r\nContent-Length: 20', JSON_TEXT)],
    ['a length and chunks', request('POST', `Content-Length: 10\r\n${CHUNKED}`, '0\r\n\r\n')],
    ['a body in two pieces', request('POST', LENGTH, JSON_TEXT.slice(0, 5)), JSON_TEXT.slice(5)],
    ['a body that is waited for', request('POST', `Expect: 100-continue\r\n${LENGTH}`), JSON_TEXT],
    [
      'several at once',
      request('POST', LENGTH, JSON_TEXT, 'keep-alive') +
        request('GET', 'X: y', '', 'keep-alive') +
        request('POST', 'Content-Length: 2', '{}')
    ],
    [
      'what is no request behind one',
      request('POST', LENGTH, JSON_TEXT, 'keep-alive') + 'XYZZY\r\n\r\n'
    ]
  ])('for %s', async (_name, ...pieces) => {
    const streams = mcpStreams()
    closeLater(() => streams.close({ drain: 0 }))
    const bare = await listen((req, res) => void endpoint(req, res))
    const mounted = await listen((req, res) => streams(req, res, () => void endpoint(req, res)))
    const expected = await exchange(bare.port, pieces)
    expect(expected).toContain('HTTP/1.1 ')
    expect(await exchange(mounted.port, pieces)).toBe(expected)
    expect(streams.stats()).toMatchObject({ live: 0, bytes: 0 })
  })
})
