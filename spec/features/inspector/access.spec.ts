// Who may look at the inspector, and what its files are.

import { describe, expect, it, jest } from '@jest/globals'
import type { Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import supertest from 'supertest'
import type { RequestHandler } from 'express'
import { mcpStreams, type McpStreams } from '../../../lib/index.js'
import { inspector, type InspectorOptions } from '../../../lib/inspector/index.js'
import { get } from '../../helpers/mcp.js'
import { open, Viewer } from './setup.js'

const PATHS = ['/mcp-streams/', '/mcp-streams/script.js', '/mcp-streams/events', '/mcp-streams']

const portOf = (server: Server): number => (server.address() as AddressInfo).port

const remedy = (port: number) =>
  `Open it on the machine itself, as http://localhost:${port}, or through an SSH tunnel\n` +
  `(ssh -L ${port}:localhost:${port} <host>). Or say who may look:\n` +
  '  inspector(streams, { allow: req => ... })\n'

/** A socket whose other end is said to be elsewhere. */
const from =
  (address: string): RequestHandler =>
  ({ socket }, _res, next) => {
    Object.defineProperty(socket, 'remoteAddress', { value: address, configurable: true })
    next()
  }

describe('without option allow', () => {
  it.each(['127.0.0.1', 'localhost', '[::1]'])('this machine sees the page, as %s', async name => {
    const { server } = await open()
    const { text } = await supertest(server)
      .get('/mcp-streams/')
      .set('Host', `${name}:${portOf(server)}`)
      .expect(200)
    expect(text).toContain('<h1>Inspector</h1>')
  })

  it.each([
    [{ 'X-Forwarded-For': '127.0.0.1' }, 'x-forwarded-for'],
    [{ 'X-Forwarded-Host': 'localhost' }, 'x-forwarded-host'],
    [{ Forwarded: 'for=127.0.0.1' }, 'forwarded'],
    [{ 'X-Real-IP': '127.0.0.1' }, 'x-real-ip'],
    [{ Via: '1.1 proxy' }, 'via']
  ])('nobody sees it through a proxy: %j', async (headers, header) => {
    const { server } = await open()
    for (const path of PATHS) {
      const { text, type } = await supertest(server).get(path).set(headers).expect(403)
      expect(type).toBe('text/plain')
      expect(text).toBe(
        'This page is for the machine that it runs on, and this request has come through a proxy ' +
          `(header ${header}).\n${remedy(portOf(server))}`
      )
    }
  })

  it.each(['203.0.113.7', '10.0.0.2', '::ffff:10.0.0.2', '2001:db8::1'])(
    'nobody sees it from %s',
    async address => {
      const { server } = await open({ inFront: from(address) })
      for (const path of PATHS) {
        const { text } = await supertest(server).get(path).expect(403)
        expect(text).toContain('this request has come from another machine')
      }
    }
  )

  it('nobody sees it over HTTP/1.0, which no browser speaks, and proxies do', async () => {
    const { server } = await open()
    const { port } = server.address() as AddressInfo
    const socket = connect(port, '127.0.0.1')
    socket.end('GET /mcp-streams/ HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n')
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 403 [^]* through a proxy \(HTTP\/1\.0\)\./)
  })

  it.each(['evil.example', '127.0.0.1.evil.example:80', 'localhost.evil.example', '', '%%'])(
    'no page of another site sees it by DNS rebinding: Host %p',
    async host => {
      const { server } = await open()
      for (const path of PATHS) {
        const { text } = await supertest(server).get(path).set('Host', host).expect(403)
        expect(text).toContain('this request names another host (header host)')
      }
    }
  )

  it.each(['localhost', '127.0.0.1', 'localhost:80', '[::1]:8080', 'localhost:'])(
    'nobody sees it through what forwards from another port, and adds no header: Host %p',
    async host => {
      const { server } = await open()
      for (const path of PATHS) {
        const { text } = await supertest(server).get(path).set('Host', host).expect(403)
        expect(text).toContain('this request names another port (header host)')
      }
    }
  )

  it('no page of another origin may ask', async () => {
    const { server } = await open()
    const { text } = await supertest(server)
      .get('/mcp-streams/events')
      .set('Host', `localhost:${portOf(server)}`)
      .set('Origin', 'https://evil.example')
      .expect(403)
    expect(text).toContain('a page of another site')
  })
})

describe('with option allow', () => {
  const allowing = (allow: InspectorOptions['allow']) => open({ inspecting: { allow } })

  it('its word counts, wherever a request is from', async () => {
    const { server } = await allowing(req => req.headers.authorization === 'Basic b3BzOg==')
    const asked = () => supertest(server).get('/mcp-streams/').set('X-Forwarded-For', '1.2.3.4')
    await asked().set('Host', 'ops.example').set('Authorization', 'Basic b3BzOg==').expect(200)
    const { text } = await asked().expect(403)
    expect(text).toBe('You may not look at this page: option `allow` says no\n')
  })

  it('no page of another site follows, whether or not its browser says more than that', async () => {
    const { server } = await allowing(() => true)
    for (const header of ['Origin', 'Sec-Fetch-Site'])
      await supertest(server)
        .get('/mcp-streams/events')
        .set(header, header === 'Origin' ? 'http://evil.example' : 'cross-site')
        .expect(403)
  })

  it('it may take its time', async () => {
    const { server } = await allowing(({ url }) => Promise.resolve(url !== '/events'))
    await supertest(server).get('/mcp-streams/').expect(200)
    await supertest(server).get('/mcp-streams/events').expect(403)
  })

  it('only `true` is a yes', async () => {
    const { server } = await allowing((() => 'false') as never)
    await supertest(server).get('/mcp-streams/').expect(403)
  })

  it('it is asked again after five minutes', async () => {
    let may = true
    const { page } = await allowing(() => may)
    const now = performance.now.bind(performance)
    const viewer = await Viewer.open(page)
    may = false
    jest.spyOn(performance, 'now').mockImplementation(() => now() + 4.9 * 60_000)
    await viewer.next()
    await viewer.next()
    jest.spyOn(performance, 'now').mockImplementation(() => now() + 5.1 * 60_000)
    expect(await viewer.response.ended).toBe('end')
    expect((await get(`${page}events`)).status).toBe(403)
  })

  it('its error is the application’s', async () => {
    const { server } = await allowing(() => {
      throw Object.assign(new Error('no directory'), { status: 503 })
    })
    await supertest(server).get('/mcp-streams/').expect(503)
  })

  it('the events are for the page alone', async () => {
    const { server } = await allowing(() => true)
    const { text } = await supertest(server)
      .get('/mcp-streams/events')
      .set('Sec-Fetch-Site', 'cross-site')
      .expect(403)
    expect(text).toBe('Only for the page itself\n')
  })
})

describe('the page', () => {
  it('lets no script in but its own', async () => {
    const { server } = await open()
    for (const [path, type] of [
      ['', 'text/html'],
      ['style.css', 'text/css'],
      ['script.js', 'text/javascript']
    ]) {
      const { text, headers } = await supertest(server)
        .get(`/mcp-streams/${path}`)
        .buffer(true)
        .expect(200)
      expect(headers).toMatchObject({
        'content-type': `${type}; charset=utf-8`,
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
          "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'x-content-type-options': 'nosniff',
        'cross-origin-resource-policy': 'same-origin',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store'
      })
      expect(text).not.toMatch(/https?:\/\/(?!www\.w3\.org\/2000\/svg)/)
      if (type !== 'text/html') continue
      expect(text.match(/<script/g)).toHaveLength(1)
      expect(text).not.toMatch(/<script(?![^>]* src=)|<style|style=|\son\w+=/)
    }
  })

  it('is one slash further, wherever it is mounted', async () => {
    const { server } = await open()
    const { headers } = await supertest(server).get('/mcp-streams?x=1').expect(302)
    expect(headers['location']).toBe('./mcp-streams/')
  })

  it('leaves all else to the application', async () => {
    const { server } = await open()
    for (const path of ['nothing', 'script.js/', '__proto__', '../package.json'])
      await supertest(server)
        .get(`/mcp-streams/${path}`)
        .expect(404, /Cannot GET/)
  })

  it('has no other methods', async () => {
    const { server } = await open()
    await supertest(server).post('/mcp-streams/').expect(405).expect('Allow', 'GET')
    await supertest(server).get('/mcp-streams/cut').expect(405).expect('Allow', 'POST')
    await supertest(server).head('/mcp-streams/').expect(200)
    await supertest(server).head('/mcp-streams/events').expect(200)
  })
})

describe('inspector()', () => {
  const streams = mcpStreams()

  it.each<[message: string, streams: unknown, options: object]>([
    ['inspector: `streams` must be what mcpStreams() of this version returns', () => undefined, {}],
    ['inspector: `streams` must be what mcpStreams() of this version returns', undefined, {}],
    ['inspector: unknown option `action`', streams, { action: true }],
    ['inspector: option `allow` must be a function', streams, { allow: true }],
    ['inspector: option `actions` must be a boolean', streams, { actions: 'yes' }]
  ])('refuses: %s', (message, given, options) => {
    expect(() => inspector(given as McpStreams, options)).toThrow(new TypeError(message))
  })
})
