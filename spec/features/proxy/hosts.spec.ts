// Under which names the command `proxy` may be asked: a page that has rebound its name to this
// machine has the guard of the target against it no more.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { networkInterfaces } from 'node:os'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { listen } from '../../helpers/listen.js'
import { callTool, ended, headersFor, post } from '../../helpers/mcp.js'
import { open } from '../hardening/wire.js'
import { startProxy } from './start-proxy.js'

const HEADERS = headersFor({ version: '2025-11-25' })

async function inFrontOfOne(...args: string[]) {
  const endpoint = rawEndpoint(({ res }) => res.end('{}'))
  const { url } = await listen(endpoint)
  const proxy = await startProxy(`${url}/mcp`, args)
  const statusFor = async (host: string, at = proxy.url): Promise<number> =>
    (await ended(post(at, callTool(1, 'any'), { ...HEADERS, host }))).status
  return { endpoint, statusFor, ...proxy }
}

describe('a name of the proxy', () => {
  it.each(['localhost', 'LOCALHOST:80', '127.0.0.1:9999', '127.1.2.3', '[::1]:3001'])(
    'may be one of this machine: %s',
    async host => {
      const { statusFor } = await inFrontOfOne()
      expect(await statusFor(host)).toBe(200)
    }
  )

  it.each([
    'rebound.example:3001',
    'localhost.example',
    '127.0.0.1.example',
    '192.0.2.1',
    'localhost@rebound.example',
    'localhost/a',
    ':80',
    '%'
  ])('is no other, and its target hears of none: %s', async host => {
    const { endpoint, statusFor, err } = await inFrontOfOne()
    expect([await statusFor(host), await statusFor(host)]).toEqual([421, 421])
    expect(endpoint.calls).toHaveLength(0)
    expect(err).toEqual([`a request for the host ${host} was refused: --allowed-hosts may name it`])
  })

  it('may be named by an option, with its port or without', async () => {
    const { statusFor } = await inFrontOfOne('--allowed-hosts', 'a.example, B.example:8443')
    const hosts = ['a.example', 'A.example:3001', 'b.example:8443', 'localhost', 'b.example']
    expect(await Promise.all(hosts.map(host => statusFor(host)))).toEqual([200, 200, 200, 200, 421])
  })

  it('is any, where the option says so', async () => {
    const { statusFor } = await inFrontOfOne('--allowed-hosts', '*')
    expect(await statusFor('any.example')).toBe(200)
  })

  it('is that of the public URL as well', async () => {
    const { statusFor } = await inFrontOfOne('--public-url', 'https://mcp.example/mcp')
    expect([await statusFor('mcp.example'), await statusFor('other.example')]).toEqual([200, 421])
  })

  it('may be left out, as no browser does, and does not matter for its health', async () => {
    const { port } = await inFrontOfOne()
    for (const request of [
      'GET /mcp HTTP/1.0\r\n',
      'GET /healthz HTTP/1.1\r\nHost: a.example\r\n'
    ]) {
      const { socket, text } = open(port)
      socket.write(`${request}Connection: close\r\n\r\n`)
      await once(socket, 'close')
      expect(text()).toMatch(/^HTTP\/1\.1 200 /)
    }
  })

  const address = Object.values(networkInterfaces())
    .flat()
    .find(found => found?.family === 'IPv4' && !found.internal)?.address
  const elsewhere = address === undefined ? it.skip : it

  elsewhere(
    'is any at another address than that of this machine, unless some are named',
    async () => {
      const free = await inFrontOfOne('--host', '0.0.0.0')
      const named = await inFrontOfOne('--host', '0.0.0.0', '--allowed-hosts', 'a.example')
      const at = ({ port }: { port: number }): string => `http://${address}:${port}/mcp`
      expect([
        await free.statusFor('any.example', at(free)),
        await named.statusFor('any.example', at(named)),
        await named.statusFor('a.example', at(named))
      ]).toEqual([200, 421, 200])
    }
  )
})
