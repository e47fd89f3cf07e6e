// How the command `proxy` is called, what it says, and how it ends.

import { describe, expect, it } from '@jest/globals'
import { createClient } from 'redis'
import { parse } from '../../../lib/proxy/arguments.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, initialize, post, result } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { run, startProxy } from './start-proxy.js'

const URL = 'http://127.0.0.1:1/mcp'
const SECRET = 'sixteen characters'
const HEADERS = headersFor({ version: '2025-11-25' })
const call = callTool(1, 'any')

async function bad(args: string[], config = '{}'): Promise<unknown[]> {
  const readFile = (path: string): string => {
    if (path === 'none.json') throw new Error('no such file')
    return config
  }
  const { err, code } = run(args, { readFile, loadRedis: () => ({ createClient }) })
  return [await code, ...err]
}

describe('the command line', () => {
  it.each<[args: string[], message: string]>([
    [[], 'one URL is wanted: --help'],
    [[URL, URL], 'one URL is wanted: --help'],
    [['mcp.example.com'], 'mcp.example.com is no http(s) URL'],
    [['ftp://a/'], 'ftp://a/ is no http(s) URL'],
    [['http://u:p@a/'], 'the URL must not have a user or a password: clients send their own'],
    [[URL, '--port', '65536'], '--port: a whole number is wanted, not 65536'],
    [[URL, '--drain', 'soon'], '--drain: a whole number is wanted, not soon'],
    [
      [URL, '--allowed-hosts', 'a.example,https://b.example'],
      '--allowed-hosts: https://b.example is no host name'
    ],
    [[URL, '--allowed-hosts', ''], '--allowed-hosts:  is no host name'],
    [[URL, '--public-url', 'mcp.example/mcp'], 'mcp.example/mcp is no http(s) URL'],
    [[URL, '--retry'], '--retry: its value is missing'],
    [[URL, '--retry', '--verbose'], '--retry: its value is missing'],
    [[URL, '-v'], 'unknown option -v'],
    [[URL, '--no-such', '1'], 'unknown option --no-such'],
    [
      [URL, '--json-keepalive', '1'],
      'unknown option --json-keepalive: did you mean --json-keep-alive?'
    ],
    [
      [URL, '--upgrade-after=x'],
      "option --upgrade-after must be a whole number, 0 or more, or null (milliseconds), not 'x'"
    ],
    [[URL, '--on-error', 'x'], "option --on-error must be a function, not 'x'"],
    [
      [URL, '--cookie', '{"name":"x"}'],
      '--cookie: option `secret` must be a string of 16 characters or more, or a list of them'
    ],
    [[URL, '--sessions', 'yes'], '--sessions: options must be an object'],
    [[URL, '--tasks', '{"afte":1}'], '--tasks: unknown option `afte`: did you mean `after`?'],
    [[URL, '--config', 'none.json'], '--config none.json: no such file'],
    [[URL, '--redis', 'redis://a'], '--redis: --redis-secret is missing'],
    [[URL, '--redis', 'nonsense', '--redis-secret', SECRET], '--redis: Invalid URL'],
    [
      [URL, '--redis', 'redis://a', '--redis-secret', 'short'],
      '--redis: option `secret` must be a string of 16 characters or more, or a list of them'
    ]
  ])('%j: %s', async (args, message) => {
    expect(await bad(args)).toEqual([2, message])
  })

  it.each([
    ['[]', '--config a.json: a JSON object is wanted'],
    [
      '{"retry": -1}',
      'option `retry` must be a whole number, 0 or more, or null (milliseconds), not -1'
    ]
  ])('with the file %s: %s', async (config, message) => {
    expect(await bad([URL, '--config', 'a.json'], config)).toEqual([2, message])
  })

  it('says where redis is missing', async () => {
    const { err, code } = run([URL, '--redis', 'redis://a', '--redis-secret', SECRET])
    expect([await code, ...err]).toEqual([
      2,
      '--redis: the package redis is missing: npm install redis'
    ])
  })

  it('explains itself', async () => {
    const [help, version] = [run(['-h']), run([URL, '--version'])]
    expect([await help.code, await version.code, ...version.out]).toEqual([0, 0, '1.2.3'])
    expect(help.out[0]).toMatch(/^Usage: express-mcp-streams proxy <url> /)
  })

  it('exits with 1 where it cannot listen', async () => {
    const { port } = await listen(rawEndpoint(() => undefined))
    const { err, code } = run([URL, '--port', String(port)])
    expect([await code, ...err]).toEqual([
      1,
      `cannot listen: listen EADDRINUSE: address already in use 127.0.0.1:${port}`
    ])
  })
})

describe('options', () => {
  const start = async (args: string[], config = '{}', env = {}) => {
    const endpoint = rawEndpoint(call => call.result(), { session: 'the-id' })
    const target = await listen(endpoint)
    const { url } = await startProxy(`${target.url}/mcp`, args, { readFile: () => config, env })
    return { url, first: await ended(post(url, initialize('2025-11-25'), HEADERS)) }
  }

  it('are those of the middleware, by flags before a file', async () => {
    const config = '{"retry": 7000, "notifications": "always"}'
    const { url } = await start(['--config', 'a.json', '--retry=8000'], config)
    const { text } = await ended(post(url, call, HEADERS))
    expect(text).toContain('retry: 8000')
    expect(text).toContain('notifications/stream/create')
  })

  it.each([
    [['--tasks', URL], {}],
    [[URL, '--tasks'], {}],
    [[URL, '--tasks', '{"after":1}'], { after: 1 }],
    [['--tasks', 'false', URL], false]
  ])('have a short form for tasks: %j', (args, tasks) => {
    expect(parse(args, { env: {}, readFile: String })).toMatchObject({ options: { tasks } })
  })

  it('have secrets from the environment', async () => {
    const { first } = await start([], '{}', { MCP_STREAMS_SESSIONS_SECRET: SECRET })
    expect(String(first.headers['mcp-session-id']).length).toBeGreaterThan(100)
    const without = await start([])
    expect(without.first.headers['mcp-session-id']).toBe('the-id')
  })
})

describe('the process', () => {
  it('says that it runs, and prints a line for each request', async () => {
    const { url, out } = await startProxy(URL, ['--verbose'])
    const health = await ended(get(new globalThis.URL('/healthz', url)))
    expect([health.status, health.text]).toEqual([200, 'ok\n'])
    await ended(get(new globalThis.URL('/n%0ao?stream=secret', url)))
    for (const path of ['/healthz/', '/healthz?from=a-prober'])
      expect((await ended(get(new globalThis.URL(path, url)))).status).toBe(200)
    expect(await out.nth(1)).toBe(`${url} is in front of ${URL}`)
    expect(await out.nth(2)).toMatch(/^GET \/healthz 200, \d+ ms$/)
    expect(await out.nth(3)).toMatch(/^GET \/n%0ao 404, \d+ ms$/)
  })

  it.each([
    ['/mcp', '/mcp/'],
    ['/mcp/', '/mcp']
  ])('says once that the endpoint is at %s, and not at %s', async (path, asked) => {
    const { url, err } = await startProxy(new globalThis.URL(path, URL).href)
    for (const at of [asked, asked, '/other'])
      expect((await ended(get(new globalThis.URL(at, url)))).status).toBe(404)
    expect(err).toEqual([`a client asks for ${asked}: the path of the endpoint is ${path}`])
  })

  it('finishes running calls before it ends', async () => {
    const endpoint = rawEndpoint(call => call.open())
    const target = await listen(endpoint)
    const { url, code, stop } = await startProxy(`${target.url}/mcp`, ['--drain', '60000'])
    const running = await post(url, call, HEADERS)
    stop()
    endpoint.calls[0]!.result('done')
    await running.ended
    expect(running.messages()).toEqual([result(1, 'done')])
    expect(await code).toBe(0)
  })

  it('ends when their time is over', async () => {
    const target = await listen(rawEndpoint(call => call.write('{')))
    const { url, code, stop } = await startProxy(`${target.url}/mcp`, ['--drain', '100'])
    const running = await post(url, call, HEADERS)
    const untaken = await openStream(url, { method: 'PUT', body: call })
    stop()
    expect(await code).toBe(0)
    await running.ended
    expect(running.messages()[0]).toMatchObject({ error: { data: { reason: 'closing' } } })
    expect(await untaken.ended).not.toBe('end')
  })
})
